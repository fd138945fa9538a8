"""Differences between two declared things, field by field, with what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace.model.impact import Impact
from millrace.model.shape import Field, Record, Several, Table, record_of
from millrace.model.step import Reason
from millrace.model.text import written

SHOWN = 120


def differences(
    old: Any, new: Any, without: frozenset[str] = frozenset(), prefix: str = ""
) -> tuple[Reason, ...]:
    """Return a reason for every field that differs, apart from those in `without`."""
    if old == new:
        return ()
    found: list[Reason] = []
    for field in record_of(type(new)).fields:
        if field.attribute in without:
            continue
        before, after = getattr(old, field.attribute), getattr(new, field.attribute)
        if before != after:
            found += _field(field, before, after, prefix + field.key)
    return tuple(found)


def _field(field: Field, before: Any, after: Any, path: str) -> Iterator[Reason]:
    """The reasons inside a field where both sides have it, else one for the whole."""
    inner = field.shape
    if isinstance(inner, Record) and before is not None and after is not None:
        yield from differences(before, after, prefix=path + ".")
        return
    if isinstance(inner, Several) and isinstance(inner.of, Record) and len(before) == len(after):
        pairs = list(zip(before, after, strict=True))
        short = inner.of.short
        if all(short is None or getattr(a, short) == getattr(b, short) for a, b in pairs):
            for index, (one, other) in enumerate(pairs):
                yield from differences(one, other, prefix=f"{path}[{index}].")
            return
    by_name = isinstance(inner, Table) and isinstance(inner.of, Record) and before and after
    if by_name and before.keys() == after.keys():
        for key in after:
            yield from differences(before[key], after[key], prefix=f"{path}.{key}.")
        return
    yield changed(path, before, after, field.change)


def changed(path: str, before: Any, after: Any, impact: Impact) -> Reason:
    """Return the reason that a field changed."""
    old, new = shown(before), shown(after)
    return Reason(f"{path}: {old} -> {new}", impact, path, old, new)


def shown(value: Any) -> str:
    """Return a value as a file would write it, on one line."""
    plain = written(value) if value is not None else None
    text = _flow(plain)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _flow(value: Any) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return "true" if value else "false"
        case str():
            plain = "".join(char if char.isprintable() else " " for char in value)
            return " ".join(plain.split()) or '""'
        case list():
            return "[" + ", ".join(_flow(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)
