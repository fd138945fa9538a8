"""What is kept of a key, as JSON that later versions of the code can read.

A class's state is its annotated fields: a version that adds one with a default, or drops one, goes
on with what is there. A value is read as it was written: what JSON does not know has a mark.
"""

from __future__ import annotations

import base64
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from millrace.errors import OperationFailed

#: What the state belongs to, among its fields: no field of a class is called so.
CODE, TIMERS = "$code", "$timers"
_MICROSECOND = timedelta(microseconds=1)
_LEAST, _MOST = -(2**63), 2**63


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a class by name: their types as the code says them, and which have a default.

    A function has none: its state is a dict, of which anything fits.
    """

    types: Mapping[str, str]
    defaults: frozenset[str]


def fields_of(code: Callable[..., Any]) -> Fields | None:
    """Return the fields of a class; None for a function. Raises where it can't hold state."""
    if not inspect.isclass(code):
        return None
    types: dict[str, str] = {}
    for base in reversed(code.__mro__[:-1]):
        for name, kind in inspect.get_annotations(base).items():
            said = kind if isinstance(kind, str) else _named(kind)
            if "ClassVar" not in said:
                types[name] = said
    made = _made(code)
    shared = [n for n in types if n not in made and isinstance(getattr(code, n, None), _SHARED)]
    if shared:
        raise OperationFailed(
            "shared-state",
            f"{code.__name__}.{shared[0]} is one object for all keys",
            f"make it in __init__: self.{shared[0]} = ...",
        )
    return Fields(types, frozenset(name for name in types if name in made or hasattr(code, name)))


_SHARED = (list, dict, set)


def _made(code: type) -> Mapping[str, Any]:
    """The fields of a fresh object."""
    try:
        found: Mapping[str, Any] = vars(code())
        return found
    except Exception as error:
        raise OperationFailed(
            "no-state-class",
            f"{code.__name__}() failed: {type(error).__name__}: {error}",
            "an object of it is made for each new key, without arguments; it has no __slots__",
        ) from error


def _named(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) else str(kind)


def misfits(before: Mapping[str, str], now: Fields) -> list[str]:
    """Return why state that an earlier version wrote does not fit, empty if it does."""
    found = []
    for name, kind in now.types.items():
        old = before.get(name)
        if old is None:
            if name not in now.defaults:
                found.append(f"{name} is new and has no default")
        elif old != kind and (old, kind) != ("int", "float"):
            found.append(f"{name} was {old} and is {kind} now")
    return found


@dataclass(slots=True)
class Kept:
    """What is kept of a key; times in microseconds."""

    state: Any
    timers: list[int]
    #: Where its last record came from, and how late it was there then.
    source: int
    last: int
    #: Under which slot of that source it stands among those that have something to do.
    slot: int | None = None


def written(kept: Kept) -> dict[str, Any]:
    """Return what is kept of a key as JSON knows it."""
    return {
        "state": plain(values_of(kept.state)),
        "timers": list(kept.timers),
        "source": kept.source,
        "last": kept.last,
        "slot": kept.slot,
    }


def values_of(state: Any) -> dict[Any, Any]:
    """Return the fields of an object, or the dict of a function."""
    return state if isinstance(state, dict) else vars(state)


def check_kept(state: Any, fields: Fields | None) -> None:
    """Raise for state that could not be read as it was written."""
    values = values_of(state)
    if fields is not None and fields.types and not values.keys() <= fields.types.keys():
        name = next(name for name in values if name not in fields.types)
        message = f"{name} is no declared field: write `{name}: TYPE` in {type(state).__name__}"
        raise TypeError(message)
    if any(type(value) not in _SIMPLE for value in values.values()):
        plain(values)


_SIMPLE = frozenset({str, bool, datetime, type(None)})


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; raises for one that can't be kept."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int and _LEAST <= value < _MOST:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is list:
        return [plain(item) for item in value]
    if kind is dict and all(type(name) is str and name[:1] != "$" for name in value):
        return {name: plain(item) for name, item in value.items()}
    mark = _MARKS.get(kind)
    if mark is None:
        message = f"{kind.__name__} can't be kept: keep numbers, texts, times, lists, sets, dicts"
        raise TypeError(message)
    return {mark: _WRITTEN[mark](value)}


def _ordered(values: Any) -> list[Any]:
    return sorted((plain(item) for item in values), key=repr)


#: How values are written that JSON does not know: a mapping of one mark.
_MARKS: Mapping[type, str] = {
    int: "$int",
    float: "$float",
    datetime: "$time",
    date: "$date",
    timedelta: "$span",
    Decimal: "$decimal",
    bytes: "$bytes",
    tuple: "$tuple",
    set: "$set",
    frozenset: "$frozenset",
    dict: "$dict",
}
_WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "$int": str,
    "$float": repr,
    "$time": datetime.isoformat,
    "$date": date.isoformat,
    "$span": lambda value: str(value // _MICROSECOND),
    "$decimal": str,
    "$bytes": lambda value: base64.b64encode(value).decode(),
    "$tuple": lambda value: [plain(item) for item in value],
    "$set": _ordered,
    "$frozenset": _ordered,
    "$dict": lambda value: [[plain(name), plain(item)] for name, item in value.items()],
}


def read(document: Mapping[str, Any], code: Callable[..., Any], fields: Fields | None) -> Kept:
    """Return what is kept of a key; its state is an object of the class as it is now."""
    known = restored(document["state"])
    state: Any = known
    if fields is not None:
        state = code()
        for name, value in known.items():
            if name in fields.types or not fields.types:
                setattr(state, name, value)
    source, last, slot = document["source"], document["last"], document["slot"]
    return Kept(state, list(document["timers"]), source, last, slot)


def restored(value: Any) -> Any:
    """Return a value that was kept as it was: see `plain`."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, held),) = value.items()
        if name in _READ:
            return _READ[name](held)
    return {name: restored(item) for name, item in value.items()}


_READ: Mapping[str, Callable[[Any], Any]] = {
    "$int": int,
    "$float": float,
    "$time": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$span": lambda held: int(held) * _MICROSECOND,
    "$decimal": Decimal,
    "$bytes": base64.b64decode,
    "$tuple": lambda held: tuple(restored(item) for item in held),
    "$set": lambda held: {restored(item) for item in held},
    "$frozenset": lambda held: frozenset(restored(item) for item in held),
    "$dict": lambda held: {restored(name): restored(item) for name, item in held},
}
