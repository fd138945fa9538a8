"""Two documents beside each other: the fields that differ, and their texts line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from millrace.cli.views.ages import plain
from millrace.spec.yaml_writer import write_yaml

_SHOWN = 60
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def fields(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Return the paths at which two documents differ, with both values; None is not there."""
    return list(_fields(before, after, ""))


def _fields(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            inner = f"{path}.{key}" if path else str(key)
            yield from _fields(before.get(key), after.get(key), inner)
    elif before != after:
        yield path, before, after


def difference(before: Any, after: Any, name: str, file: str) -> str:
    """Return both documents as a unified diff of their YAML."""
    one, other = (write_yaml(item) if item else "" for item in (before, after))
    lines = difflib.unified_diff(
        one.splitlines(keepends=True), other.splitlines(keepends=True), f"{name} (in force)", file
    )
    return "".join(lines)


def difference_text(found: list[tuple[str, Any, Any]], text: str) -> Text:
    """Return both for people."""
    if not found:
        return Text("No difference: the file in force says the same.\n")
    shown = Text()
    for path, old, new in found:
        shown.append(f"{plain(path)}: ", style="bold")
        shown.append(f"{_value(old)} -> {_value(new)}\n")
    shown.append("\n")
    for line in text.splitlines(keepends=True):
        shown.append(line, style=_STYLES.get(line[:1], ""))
    return shown


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    text = plain(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
