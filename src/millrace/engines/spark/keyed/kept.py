"""What is kept of a key, as bytes that later versions of the code can read.

A class's state is its annotated fields: a version that adds one with a default, or drops one, goes
on with what is there. Values are what JSON knows, and times and bytes beside.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

#: How values that JSON does not know are written: a mapping with one such key.
_TIME, _BYTES = "$time", "$bytes"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a class by name: their types as the code says them, and which have a default.

    A function has none: its state is a dict, of which anything fits.
    """

    types: Mapping[str, str]
    defaults: frozenset[str]


def fields_of(code: Callable[..., Any]) -> Fields | None:
    """Return the fields of a class; None for a function."""
    if not inspect.isclass(code):
        return None
    types: dict[str, str] = {}
    defaults: set[str] = set()
    for base in reversed(code.__mro__[:-1]):
        for name, kind in inspect.get_annotations(base).items():
            types[name] = kind if isinstance(kind, str) else _named(kind)
            if hasattr(code, name):
                defaults.add(name)
    return Fields(types, frozenset(defaults))


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
    #: Under which slot it stands among those that have something to do.
    slot: int | None = None


def written(kept: Kept) -> bytes:
    """Return what is kept of a key as bytes."""
    state = kept.state
    document = {
        "state": state if isinstance(state, dict) else vars(state),
        "timers": kept.timers,
        "source": kept.source,
        "last": kept.last,
        "slot": kept.slot,
    }
    return dumped(document)


def dumped(value: Any) -> bytes:
    """Return a value that is kept as bytes; raises for one that can't be."""
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS)
    except orjson.JSONEncodeError as error:  # ours is its cause, in better words
        raise error.__cause__ or error from None


_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    message = f"{type(value).__name__} can't be kept; keep numbers, texts, times, lists and dicts"
    raise TypeError(message)


def read(data: bytes, code: Callable[..., Any], fields: Fields | None) -> Kept:
    """Return what is kept of a key; its state is an object of the class as it is now."""
    document = orjson.loads(data)
    known = {name: restored(value) for name, value in document["state"].items()}
    state: Any = known
    if fields is not None:
        kind: Any = code
        state = object.__new__(kind)
        for name, value in known.items():
            if name in fields.types or not fields.types:
                setattr(state, name, value)
    return Kept(state, document["timers"], document["source"], document["last"], document["slot"])


def restored(value: Any) -> Any:
    """Return a value that was kept as it was: see `written`."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        if (text := value.get(_TIME)) is not None:
            return datetime.fromisoformat(text)
        if (text := value.get(_BYTES)) is not None:
            return base64.b64decode(text)
    return {name: restored(item) for name, item in value.items()}
