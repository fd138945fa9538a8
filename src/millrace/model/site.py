"""Where jobs run: sites with their engines and brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from millrace.errors import Location
from millrace.model.impact import Impact, setting
from millrace.model.types import Natural, Options, PilotName, Plugs


class EngineKind(StrEnum):
    """What executes jobs."""

    SPARK = "spark"
    FLINK = "flink"
    DASK = "dask"
    PROCESS = "process"


class BrokerKind(StrEnum):
    """What carries streams."""

    KAFKA = "kafka"
    MQTT = "mqtt"


#: One of ours, or what a plug-in calls itself.
EngineName = Annotated[str, Plugs("engines", EngineKind)]
BrokerName = Annotated[str, Plugs("brokers", BrokerKind)]


@dataclass(frozen=True)
class Engine:
    """An engine of a site; with an address it is attached, without one managed."""

    SHORT: ClassVar[str | None] = "kind"

    kind: EngineName = setting("which engine", change=Impact.REPLACE, default=EngineKind.SPARK)
    address: str | None = setting(
        "where an engine that is already there is reached; without it Millrace starts one",
        change=Impact.REPLACE,
        default=None,
        example="http://10.0.0.7:8081/",
    )
    master: str | None = setting(
        "Spark's master; a local one by default",
        change=Impact.REPLACE,
        default=None,
        example="spark://head:7077",
    )
    options: Options | None = setting(
        "settings by the engine's own names", change=Impact.RESTART, default=None
    )


@dataclass(frozen=True)
class Broker:
    """The broker of a site; with an address it is attached, without one managed."""

    SHORT: ClassVar[str | None] = "kind"

    kind: BrokerName = setting("which broker", change=Impact.REPLACE, default=BrokerKind.KAFKA)
    address: str | None = setting(
        "where a broker that is already there is reached; without it Millrace starts one",
        change=Impact.REPLACE,
        default=None,
        example="tcp://10.0.0.7:1883",
    )
    options: Options | None = setting(
        "settings by the broker's own names", change=Impact.RESTART, default=None
    )

    @property
    def managed(self) -> bool:
        """Whether Millrace starts and stops it."""
        return self.address is None


@dataclass(frozen=True)
class Toolchain:
    """How programs for a site are built elsewhere."""

    SHORT: ClassVar[str | None] = None

    cross_compile: bool = setting(
        "build on the coordinator for this site", change=Impact.RESTART, default=False
    )
    sysroot: str | None = setting(
        "the site's file system for the compiler", change=Impact.RESTART, default=None
    )
    compiler: str | None = setting("the C++ compiler", change=Impact.RESTART, default=None)
    arch: str | None = setting("the target's triple", change=Impact.RESTART, default=None)


@dataclass(frozen=True)
class Site:
    """A place where jobs run, with its engines and perhaps a broker."""

    SECTION: ClassVar[Literal["sites"]] = "sites"
    SHORT: ClassVar[str | None] = None

    name: str = ""
    at: Location | None = field(default=None, compare=False, repr=False)
    description: str = setting("a note for people", change=Impact.IGNORE, default="")
    host: str | None = setting(
        "the host name or address of the site", change=Impact.REPLACE, default=None
    )
    pilot: PilotName | None = setting(
        "the pilot that starts this site", change=Impact.REPLACE, default=None
    )
    engines: tuple[Engine, ...] = setting(
        "what executes jobs here, one or several",
        change=Impact.REPLACE,
        default=(Engine(),),
        key="engine",
    )
    broker: Broker | None = setting(
        "what carries the streams that live here", change=Impact.REPLACE, default=None
    )
    cores: tuple[Natural, ...] = setting(
        "the cores that tasks may use", change=Impact.RESTART, default=()
    )
    toolchain: Toolchain | None = setting(
        "how programs are built for this site", change=Impact.RESTART, default=None
    )

    def engine(self, kind: str) -> Engine | None:
        """Return the site's engine of a kind, if it has one."""
        return next((engine for engine in self.engines if engine.kind == kind), None)
