"""The shape of declared things, read once from their dataclasses.

The reader of pipeline files, the JSON Schema, the reference page and the writer of documents all
go by these shapes, so a new field is declared in one place.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, get_args, get_origin

from millrace.model.impact import Impact, Setting
from millrace.model.quantity import QUANTITIES
from millrace.model.types import AtLeast, Plugs, Refers

REQUIRED: Final = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Text:
    """Any text; where `refers` is set, the name of a thing of that section."""

    refers: str | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number with a fraction."""


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    of: type[StrEnum]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words, in order."""
        return tuple(member.value for member in self.of)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of engine or broker: one of our words, or the name of an installed plug-in."""

    group: str
    of: type[StrEnum]

    @property
    def words(self) -> tuple[str, ...]:
        """Return our words, in order."""
        return tuple(member.value for member in self.of)


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity with a unit."""

    of: Any


@dataclass(frozen=True, slots=True)
class Several:
    """A list; a single value stands for a list of one."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Table:
    """A map from names that the user chooses."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Record:
    """A declared thing; where `short` is set, a bare value stands for that field."""

    of: type[Any]
    fields: tuple[Field, ...]
    short: str | None
    key_set: frozenset[str]

    def field(self, key: str) -> Field:
        """Return the field that is written as `key`."""
        return next(field for field in self.fields if field.key == key)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return how its fields are written in a file."""
        return tuple(field.key for field in self.fields)


@dataclass(frozen=True, slots=True)
class Either:
    """One of several shapes."""

    options: tuple[Shape, ...]


Shape = Text | Whole | Number | Flag | Choice | Kind | Measure | Several | Table | Record | Either


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record as files write it."""

    attribute: str
    key: str
    shape: Shape
    default: Any
    doc: str
    change: Impact
    example: str
    #: Whether names of other things can stand in it.
    refers: bool

    @property
    def required(self) -> bool:
        """Whether a file must give it."""
        return self.default is REQUIRED


_RECORDS: Final[dict[type[Any], Record]] = {}


def record_of(cls: type[Any]) -> Record:
    """Return the shape of a declared dataclass, made once."""
    known = _RECORDS.get(cls)
    if known is None:
        known = _RECORDS[cls] = _record_of(cls)
    return known


def _record_of(cls: type[Any]) -> Record:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = []
    for item in dataclasses.fields(cls):
        said: Setting | None = item.metadata.get("setting")
        if said is None:  # name and place: they come from where the thing stands
            continue
        shape = shape_of(hints[item.name])
        fields.append(
            Field(
                attribute=item.name,
                key=said.key or item.name,
                shape=shape,
                default=item.default,
                doc=said.doc,
                change=said.change,
                example=said.example,
                refers=_refers(shape),
            )
        )
    return Record(cls, tuple(fields), cls.SHORT, frozenset(field.key for field in fields))


_PLAIN: Final[Mapping[Any, Shape]] = {str: Text(), int: Whole(), float: Number(), bool: Flag()}


def shape_of(hint: Any) -> Shape:
    """Return the shape of a type annotation; None in a union only means `may be left out`."""
    origin = get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Annotated:
        return _marked(hint)
    if origin in (types.UnionType, typing.Union):
        options = tuple(shape_of(arg) for arg in get_args(hint) if arg is not type(None))
        return options[0] if len(options) == 1 else Either(options)
    if origin is tuple:
        return Several(shape_of(get_args(hint)[0]))
    if origin is Mapping:
        return Table(shape_of(get_args(hint)[1]))
    if hint in QUANTITIES:
        return Measure(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Choice(hint)
    return record_of(hint)


def _marked(hint: Any) -> Shape:
    base, mark = get_args(hint)
    if isinstance(mark, Refers):
        return Text(mark.section)
    if isinstance(mark, AtLeast):
        return Whole(mark.value, mark.most)
    if isinstance(mark, Plugs):
        return Kind(mark.group, mark.ours)
    return shape_of(base)


def _refers(shape: Shape) -> bool:
    match shape:
        case Text(section):
            return section is not None
        case Several(of) | Table(of):
            return _refers(of)
        case Record(fields=fields):
            return any(field.refers for field in fields)
        case Either(options):
            return any(_refers(option) for option in options)
        case _:
            return False


def records_in(shape: Shape) -> Iterator[Record]:
    """All the records that a shape is made of, itself first."""
    match shape:
        case Record():
            yield shape
            for field in shape.fields:
                yield from records_in(field.shape)
        case Several(of) | Table(of):
            yield from records_in(of)
        case Either(options):
            for option in options:
                yield from records_in(option)
        case _:
            return
