"""Declared things as plain data: what a file, the wire and a message write for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from millrace.model.quantity import Quantity
from millrace.model.shape import record_of


def written(value: Any) -> Any:
    """Return texts, numbers, lists and maps that read back as the same value.

    Fields that have their default are left out, and a record of which at most its short field is
    left is written as that value alone.
    """
    match value:
        case StrEnum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [written(item) for item in value]
        case Mapping():
            return {key: written(item) for key, item in value.items()}
        case _ if isinstance(value, Quantity):
            return str(value)
        case _ if dataclasses.is_dataclass(value):
            return _record(value)
        case _:
            message = f"no way to write a {type(value).__name__}"
            raise TypeError(message)


def _record(thing: Any) -> Any:
    shape = record_of(type(thing))
    fields: dict[str, Any] = {}
    for field in shape.fields:
        value = getattr(thing, field.attribute)
        if field.required or value != field.default:
            fields[field.key] = _compact(written(value))
    if shape.short is not None and list(fields) in ([], [shape.short]):
        only = written(getattr(thing, shape.field(shape.short).attribute))
        if isinstance(only, str | int):
            return only
    return fields


def _compact(value: Any) -> Any:
    """A list of one bare value reads the same without its brackets."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | int):
        return value[0]
    return value
