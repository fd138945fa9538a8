"""What readers of other formats share: fields of a known set, each with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from millrace.errors import Diagnostic, Problems
from millrace.model.text import written
from millrace.spec.node import Node

K = TypeVar("K")


def known_fields(
    node: Node, what: str, keys: Sequence[str], problems: Problems, needed: Sequence[str] = ()
) -> dict[str, Node] | None:
    """Return the fields of a map, telling unknown and missing ones; None if it is no map."""
    if not isinstance(node.value, dict):
        problems.error(
            "wrong-type",
            f"{what} must be a map",
            node.at,
            found=node.describe(),
            expected=", ".join(keys[:8]),
            hint="write its fields as `key: value`",
        )
        return None
    for key in node.value:
        if key not in keys:
            near = problems.nearest(key, keys)
            problems.error(
                "unknown-key",
                f"{what} has no field {key!r}",
                node.key_at(key),
                nearest=near,
                expected=", ".join(keys),
                hint=f"did you mean {near!r}?" if near else "remove it",
            )
    for key in needed:
        if key not in node.value:
            problems.error("missing-key", f"{what} has no {key!r}", node.at, hint=f"add `{key}:`")
    return {key: value for key, value in node.value.items() if key in keys}


def as_name(text: str) -> str:
    """Return a text as a name: what names can't hold becomes a dash."""
    return re.sub(r"[^A-Za-z0-9_.@-]", "-", text).lstrip(".@-")[:200] or "_"


def unique_names(wanted: Mapping[K, str], *, one_for_equal: bool = False) -> dict[K, str]:
    """Return names for things: equal ones are numbered, unless equal wishes mean one thing."""
    found: dict[K, str] = {}
    taken: dict[str, str] = {}
    for thing, text in wanted.items():
        name, number = as_name(text), 1
        while name in taken and not (one_for_equal and taken[name] == text):
            number += 1
            name = f"{as_name(text)[:190]}-{number}"
        taken[name] = text
        found[thing] = name
    return found


def unsaid(thing: Any, what: str, sayable: Mapping[str, Any], file_format: str) -> list[Diagnostic]:
    """Return a message for each field that a format can't say.

    `sayable` maps the fields it has to None, or to the one value that it stands for.
    """
    found = []
    fields = written(thing)
    for key, value in (fields if isinstance(fields, dict) else {}).items():
        if key in sayable and (sayable[key] is None or sayable[key] == value):
            continue
        found.append(
            Diagnostic(
                "not-sayable",
                f"{file_format} can't say `{key}` of {what}",
                getattr(thing, "at", None),
                found=str(value)[:80],
                hint="export as native, or remove it",
            )
        )
    return found
