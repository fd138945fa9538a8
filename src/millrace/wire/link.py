"""Goals and reports as plain data, ready for JSON: what coordinator and agents tell each other.

Keys are the names of the fields in `ports.link`, and values are read by their types, so a new field
is declared in one place. What is at its default is left out: reports of many jobs are sent often.
"""

from __future__ import annotations

import dataclasses
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from millrace.errors import OperationFailed, SpecError
from millrace.model.pipeline import Pipeline
from millrace.ports.link import SiteGoal, SiteReport
from millrace.wire.documents import pipeline_document

PipelineReader = Callable[[Mapping[str, Any]], Pipeline]

#: The one way to write a number as a key: two texts for the same one would hide one of the values.
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
#: Names and texts come from outside and may be of any length; a message shows this much.
_MOST_SHOWN = 200
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def goal_document(goal: SiteGoal) -> dict[str, Any]:
    """Return a goal as plain data; equal goals give equal documents."""
    return _record_written(SiteGoal, goal)


def goal_of(document: Any, read: PipelineReader) -> SiteGoal:
    """Return the goal of its document, its pipelines by `read`.

    Raises OperationFailed `bad-message` for anything but a goal's document; keys that nobody knows
    are ignored. What `read` raises for a document that is no pipeline's becomes that too.
    """
    return cast("SiteGoal", _Reader({Pipeline: read}).value(SiteGoal, document, "goal"))


def report_document(report: SiteReport) -> dict[str, Any]:
    """Return a report as plain data; answers go as they are, numbers without an end not at all.

    JSON has no word for what is infinite or undefined, and one such rate shall not silence a site.
    """
    return _record_written(SiteReport, report)


def report_of(document: Any) -> SiteReport:
    """Return the report of its document.

    Raises OperationFailed `bad-message` for anything but a report's document; keys that nobody
    knows are ignored.
    """
    return cast("SiteReport", _Reader({}).value(SiteReport, document, "report"))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: Any
    required: bool
    default: Any


@cache
def _fields(cls: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    found = []
    for item in dataclasses.fields(cls):
        default = item.default
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory()
        required = default is dataclasses.MISSING
        found.append(_Field(item.name, hints[item.name], required, default))
    return tuple(found)


def _optional(kind: Any) -> Any:
    """Return what a value is where it is not None, or None for a type that always has one."""
    if get_origin(kind) is not UnionType:
        return None
    (found,) = (part for part in get_args(kind) if part is not type(None))
    return found


def _written(kind: Any, value: Any) -> Any:
    """Return a value of a type as plain data."""
    if kind is Any:
        return value
    if (given := _optional(kind)) is not None:
        return None if value is None else _written(given, value)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Mapping:
        return _mapping_written(parts[0], parts[1], value)
    if origin is frozenset:
        return sorted(_written(parts[0], item) for item in value)
    if origin is tuple:
        return [_written(part, item) for part, item in zip(_each(parts, value), value, strict=True)]
    if kind is Pipeline:
        return pipeline_document(value)
    if dataclasses.is_dataclass(kind):
        return _record_written(kind, value)
    return value.value if isinstance(value, StrEnum) else value


def _record_written(cls: Any, value: Any) -> dict[str, Any]:
    document = {}
    for item in _fields(cls):
        given = getattr(value, item.name)
        if item.required or (given != item.default and _sayable(given)):
            document[item.name] = _written(item.kind, given)
    return document


def _mapping_written(key: Any, of: Any, value: Mapping[Any, Any]) -> Any:
    """Return a mapping; a list of pairs where its keys are more than a text or a number."""
    items = [(one, _written(of, item)) for one, item in value.items() if _sayable(item)]
    if get_origin(key) is tuple:
        return sorted([_written(key, one), item] for one, item in items)
    return {str(one): item for one, item in items}


def _sayable(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _each(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return the type of each item of a tuple, those of any length too."""
    return (parts[0],) * len(value) if parts[-1] is Ellipsis else parts


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values by their types out of what a peer sent; `at` is where a value stands there."""

    #: By type: what reads a value that is not read by its fields.
    others: Mapping[Any, PipelineReader]

    def value(self, kind: Any, found: Any, at: str) -> Any:
        """Return the value, or refuse what is none of that type."""
        if kind is Any:
            return found
        if (given := _optional(kind)) is not None:
            return None if found is None else self.value(given, found, at)
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Mapping:
            return self._mapping(parts[0], parts[1], found, at)
        if origin is frozenset:
            return frozenset(self._several((parts[0], ...), found, at))
        if origin is tuple:
            return self._several(parts, found, at)
        if (other := self.others.get(kind)) is not None:
            return _handed(other, found, at)
        if dataclasses.is_dataclass(kind):
            return self._record(kind, found, at)
        return _single(kind, found, at)

    def _record(self, cls: Any, found: Any, at: str) -> Any:
        document = _table(found, at)
        given = {}
        for item in _fields(cls):
            if item.name in document:
                place = f"{at}/{item.name}"
                given[item.name] = self.value(item.kind, document[item.name], place)
            elif item.required:
                raise _bad(at, f"has no {item.name}")
        return cls(**given)

    def _mapping(self, key: Any, of: Any, found: Any, at: str) -> dict[Any, Any]:
        if get_origin(key) is not tuple:
            document = _table(found, at)
            return {
                _key(key, one, at): self.value(of, item, f"{at}/{one}")
                for one, item in document.items()
            }
        pairs = self._several((tuple[key, of], ...), found, at)
        if len(by_key := dict(pairs)) < len(pairs):
            raise _bad(at, "says two things of one")
        return by_key

    def _several(self, parts: tuple[Any, ...], found: Any, at: str) -> tuple[Any, ...]:
        if not isinstance(found, list):
            raise _bad(at, f"is {reprlib.repr(found)}, not a list")
        kinds = _each(parts, found)
        if len(kinds) != len(found):
            raise _bad(at, f"is a list of {len(found)}, not of {len(kinds)}")
        items = zip(kinds, found, strict=True)
        return tuple(self.value(kind, item, f"{at}/{i}") for i, (kind, item) in enumerate(items))


def _handed(read: PipelineReader, found: Any, at: str) -> Pipeline:
    """Return the pipeline that a reader from outside makes of its document."""
    document = _table(found, at)
    try:
        return read(document)
    except (SpecError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise _bad(at, f"is not a pipeline: {str(error)[:_MOST_SHOWN]!r}") from error


def _single(kind: Any, found: Any, at: str) -> Any:
    """Return a text, a number, true or false, or one of a few words."""
    if issubclass(kind, StrEnum):
        return _word(kind, found, at)
    truth = isinstance(found, bool)  # which Python takes for a number
    if kind is float and isinstance(found, int) and not truth:
        found = _fraction(found)
    if isinstance(found, kind) and truth == (kind is bool) and _sayable(found):
        return found
    raise _bad(at, f"is {reprlib.repr(found)}, not {_WORDS[kind]}")


def _fraction(found: int) -> float:
    """Return a number that came without a fraction; some writers of JSON leave that out."""
    try:
        return float(found)
    except OverflowError:
        return math.inf


def _word(kind: type[StrEnum], found: Any, at: str) -> StrEnum:
    words = {word.value: word for word in kind}
    if isinstance(found, str) and found in words:
        return words[found]
    raise _bad(at, f"is {reprlib.repr(found)}, not one of {', '.join(words)}")


def _key(kind: Any, found: Any, at: str) -> Any:
    """Return a key as its type has it: JSON knows only texts."""
    if not isinstance(found, str):
        raise _bad(at, f"has the key {reprlib.repr(found)}, which is not a text")
    if kind is not int:
        return found
    if not _NUMBER.fullmatch(found):
        raise _bad(at, f"has the key {reprlib.repr(found)}, which is not a whole number")
    return int(found)


def _table(found: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise _bad(at, f"is {reprlib.repr(found)}, not an object")
    return found


def _bad(at: str, problem: str) -> OperationFailed:
    return OperationFailed(
        "bad-message",
        f"a message can't be read: {at[:_MOST_SHOWN]!r} {problem}",
        "coordinator and agents must be of versions that understand each other: update the older",
    )
