"""What a job does: the kinds of code it may bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from millrace.model.impact import Impact, setting
from millrace.model.quantity import Duration, Rate, Size
from millrace.model.types import Count, Options, SiteName


@dataclass(frozen=True)
class KeyedState:
    """A Python class or function with state per key and timers."""

    SHORT: ClassVar[str | None] = "code"

    code: str = setting(
        "module:name of the class or function", change=Impact.RESTART, example="traffic:Journey"
    )
    key: tuple[str, ...] = setting("the columns that make the key", default=())
    by: str | None = setting(
        "the timestamp column that timers and `expires` go by; by default the broker's time",
        default=None,
    )
    expires: Duration | None = setting(
        "forget a key after this much silence", change=Impact.RESTART, default=None
    )


@dataclass(frozen=True)
class Jar:
    """A program for the engine's virtual machine, a black box to Millrace."""

    SHORT: ClassVar[str | None] = "path"

    path: str = setting("the jar file", change=Impact.STATE_LOST, example="jars/filter.jar")
    entry: str | None = setting("the entry class", change=Impact.STATE_LOST, default=None)
    arguments: tuple[str, ...] = setting(
        "arguments of the program", change=Impact.RESTART, default=()
    )


@dataclass(frozen=True)
class Process:
    """A program that reads and writes its streams by port number."""

    SHORT: ClassVar[str | None] = "command"

    command: tuple[str, ...] = setting(
        "the program and its arguments; without it the chosen variant is run",
        change=Impact.RESTART,
        default=(),
    )
    directory: str | None = setting("where it runs", change=Impact.RESTART, default=None)
    environment: Options | None = setting(
        "variables it is given", change=Impact.RESTART, default=None
    )


class Sequence(StrEnum):
    """The order in which chunks of a generated stream arrive."""

    KEEP = "keep"
    ANY = "any"


@dataclass(frozen=True)
class Constraint:
    """What a generated stream must keep to."""

    SHORT: ClassVar[str | None] = None

    place: tuple[SiteName, ...] = setting(
        "the sites that receive it", change=Impact.REPLACE, default=()
    )
    split: Count = setting(
        "into how many parts, each to a consumer of its own", change=Impact.REPLACE, default=1
    )
    sequence: Sequence = setting(
        "`keep`: as sequential generation would", change=Impact.REPLACE, default=Sequence.KEEP
    )
    speed: Rate | None = setting(
        "the constant speed asked for", change=Impact.RESTART, default=None, example="400 MB/s"
    )


class ProducersOn(StrEnum):
    """What runs the producers of a generator."""

    PROCESSES = "processes"
    SPARK = "spark"


@dataclass(frozen=True)
class Producers:
    """Who computes the chunks."""

    SHORT: ClassVar[str | None] = "count"

    count: Count = setting("how many", change=Impact.RESCALE, default=1)
    on: ProducersOn = setting(
        "what runs them", change=Impact.RESTART, default=ProducersOn.PROCESSES
    )


@dataclass(frozen=True)
class Generator:
    """A stream made chunk by chunk by many producers under constraints."""

    SHORT: ClassVar[str | None] = "code"

    code: str = setting(
        "the module with `preload` and `compute`", change=Impact.REPLACE, example="inkjet"
    )
    inputs: tuple[str, ...] = setting(
        "files that every node loads once", change=Impact.REPLACE, default=()
    )
    size: Size | None = setting(
        "how much in all; open without it", change=Impact.REPLACE, default=None
    )
    chunk: Size | None = setting("the greatest chunk", change=Impact.RESTART, default=None)
    producers: Producers = setting(
        "who computes the chunks", change=Impact.RESCALE, default=Producers()
    )
    constraints: Mapping[str, Constraint] | None = setting(
        "per output stream", change=Impact.REPLACE, default=None
    )


@dataclass(frozen=True)
class Build:
    """How a variant's program is made."""

    SHORT: ClassVar[str | None] = "type"

    type: str = setting("the build tool", change=Impact.RESTART, default="make")
    source: str | None = setting("the source folder", change=Impact.RESTART, default=None)
    output: str | None = setting("the program it makes", change=Impact.RESTART, default=None)
    flags: tuple[str, ...] = setting("flags of the build", change=Impact.RESTART, default=())


@dataclass(frozen=True)
class Variant:
    """One of several implementations of a job."""

    SHORT: ClassVar[str | None] = "backend"

    kind: str | None = setting(
        "the family of the code (skepu, cpp, openmp, python)", change=Impact.RESTART, default=None
    )
    backend: str | None = setting(
        "the platform it is for (openmp, cuda, opencl, sequential)",
        change=Impact.RESTART,
        default=None,
    )
    build: Build | None = setting("how it is built", change=Impact.RESTART, default=None)
    code: str | None = setting(
        "module:function, where the variant is Python", change=Impact.RESTART, default=None
    )
    default: bool = setting("taken unless another is chosen", change=Impact.RESTART, default=False)
