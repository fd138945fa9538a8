"""The unit of composition: code with inputs and outputs at a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Literal

from millrace.errors import Location
from millrace.model.impact import Impact, setting
from millrace.model.policy import (
    Checkpoint,
    End,
    Failover,
    OnError,
    Overload,
)
from millrace.model.quantity import Duration, Records
from millrace.model.site import EngineKind
from millrace.model.stream import Promise, Schema
from millrace.model.types import Count, GroupName, Natural, Options, SiteName, StreamName
from millrace.model.window import Window
from millrace.model.work import Generator, Jar, KeyedState, Process, Variant


class Mode(StrEnum):
    """How an engine turns a stream into results; see the semantics page."""

    AUTO = "auto"
    REAL_TIME = "real-time"
    MICRO_BATCH = "micro-batch"
    DRAIN = "drain"


class Emit(StrEnum):
    """When a window's or an aggregate's result leaves."""

    FINAL = "final"
    UPDATES = "updates"


class Order(StrEnum):
    """What order outputs keep."""

    NONE = "none"
    KEY = "key"
    PRESERVE = "preserve"


class Isolation(StrEnum):
    """Whether a job shares a driver with its group."""

    SHARED = "shared"
    DEDICATED = "dedicated"


class Fuse(StrEnum):
    """Whether neighbours over transient streams may become one query."""

    AUTO = "auto"
    NEVER = "never"


class Start(StrEnum):
    """Where a reader that has no position yet begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Input:
    """A stream that a job reads."""

    SHORT: ClassVar[str | None] = "stream"

    stream: StreamName = setting("the stream")
    alias: str | None = setting(
        "its name in the job's code; by default the stream's", key="as", default=None
    )
    start: Start = setting(
        "where to begin without a position", change=Impact.IGNORE, default=Start.EARLIEST
    )
    consumes: Count | None = setting(
        "records taken per firing, for the balance check", change=Impact.IGNORE, default=None
    )


@dataclass(frozen=True)
class Output:
    """A stream that a job writes."""

    SHORT: ClassVar[str | None] = "stream"

    stream: StreamName = setting("the stream", change=Impact.RESTART)
    alias: str | None = setting(
        "its name in the job's code; by default the stream's",
        change=Impact.RESTART,
        key="as",
        default=None,
    )
    schema: Schema | None = setting(
        "the columns this job writes, if not the stream's", change=Impact.RESTART, default=None
    )
    produces: Count | None = setting(
        "records made per firing, for the balance check", change=Impact.IGNORE, default=None
    )


@dataclass(frozen=True)
class PortBuffers:
    """How much a direct stream's two ends hold for a job."""

    SHORT: ClassVar[str | None] = None

    input: Records | None = setting("per input", change=Impact.RESTART, default=None)
    output: Records | None = setting("per output", change=Impact.RESTART, default=None)


@dataclass(frozen=True)
class Job:
    """Code with inputs and outputs at a site; exactly one of the kinds is given."""

    SECTION: ClassVar[Literal["jobs"]] = "jobs"
    SHORT: ClassVar[str | None] = None
    KINDS: ClassVar[tuple[str, ...]] = (
        "sql",
        "python",
        "map",
        "state",
        "jar",
        "process",
        "generator",
    )

    name: str = ""
    at: Location | None = field(default=None, compare=False, repr=False)
    description: str = setting("a note for people", change=Impact.IGNORE, default="")
    site: SiteName | None = setting(
        "where it runs; the only site by default", change=Impact.RESTART, default=None
    )
    engine: EngineKind | None = setting(
        "what executes it; by default what its kind needs", change=Impact.REPLACE, default=None
    )
    group: GroupName | None = setting(
        "jobs of a group share a driver and defaults", change=Impact.RESTART, default=None
    )
    inputs: tuple[Input, ...] = setting("the streams it reads", key="from", default=())
    outputs: tuple[Output, ...] = setting(
        "the streams it writes", change=Impact.RESTART, key="to", default=()
    )

    sql: str | None = setting(
        "a query over its inputs as views",
        default=None,
        example="SELECT * FROM raw WHERE speed > 0",
    )
    python: str | None = setting(
        "module:function, DataFrames in, DataFrames out",
        default=None,
        example="traffic:summary",
    )
    map: str | None = setting(
        "module:function, a record in, none or more out",
        change=Impact.RESTART,
        default=None,
        example="traffic:clean",
    )
    state: KeyedState | None = setting("code with state per key", default=None)
    jar: Jar | None = setting("a program for the engine's virtual machine", default=None)
    process: Process | None = setting("a program of its own", change=Impact.RESTART, default=None)
    generator: Generator | None = setting(
        "makes its stream chunk by chunk", change=Impact.REPLACE, default=None
    )

    window: Window | None = setting("cuts its input into packets", default=None)
    emit: Emit = setting("when results leave", default=Emit.FINAL)
    mode: Mode = setting(
        "how the engine runs it; `auto` never changes results",
        change=Impact.RESTART,
        default=Mode.AUTO,
    )
    interval: Duration | None = setting(
        "the length of a micro-batch; as fast as possible without it",
        change=Impact.RESTART,
        default=None,
    )
    every: Duration | None = setting(
        "fires by time instead of by input", change=Impact.RESTART, default=None
    )
    replicas: Count = setting("how many work side by side", change=Impact.RESCALE, default=1)
    order: Order = setting("what order outputs keep", change=Impact.RESTART, default=Order.KEY)
    promise: Promise | None = setting(
        "what it promises of each record; by default what its streams ask",
        change=Impact.RESTART,
        default=None,
    )
    overload: Overload | None = setting(
        "what happens when it can't keep up", change=Impact.RESTART, default=None
    )
    on_error: OnError = setting(
        "what happens to a record whose code fails", change=Impact.RESTART, default=OnError()
    )
    checkpoint: Checkpoint = setting(
        "how often and where progress is kept", change=Impact.RESTART, default=Checkpoint()
    )
    end: End = setting("when it is over", change=Impact.RESTART, default=End())
    variants: Mapping[str, Variant] | None = setting(
        "implementations to choose from", change=Impact.RESTART, default=None
    )
    pin: tuple[Natural, ...] = setting(
        "the cores it has for itself", change=Impact.RESTART, default=()
    )
    buffers: PortBuffers | None = setting(
        "how much its ends of direct streams hold", change=Impact.RESTART, default=None
    )
    isolation: Isolation = setting(
        "`dedicated` gives it a driver of its own",
        change=Impact.RESTART,
        default=Isolation.SHARED,
    )
    fuse: Fuse = setting(
        "whether it may become one query with its neighbours",
        change=Impact.RESTART,
        default=Fuse.AUTO,
    )
    failover: Failover | None = setting(
        "may start elsewhere when its site is lost", change=Impact.IGNORE, default=None
    )
    options: Options | None = setting(
        "settings by the engine's own names", change=Impact.RESTART, default=None
    )

    @property
    def kind(self) -> str:
        """Return which of KINDS the job is; `none` where a file forgot to say."""
        return next((kind for kind in self.KINDS if getattr(self, kind) is not None), "none")

    @property
    def needs(self) -> EngineKind | None:
        """Return the engine it runs on; None for a generator, which brings its own."""
        return self.engine or ENGINE_OF[self.kind]

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the names of the streams it reads."""
        return tuple(port.stream for port in self.inputs)

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the names of the streams it writes."""
        return tuple(port.stream for port in self.outputs)


ENGINE_OF: Final[Mapping[str, EngineKind | None]] = {
    "sql": EngineKind.SPARK,
    "python": EngineKind.SPARK,
    "map": EngineKind.SPARK,
    "state": EngineKind.SPARK,
    "jar": EngineKind.SPARK,
    "process": EngineKind.PROCESS,
    "generator": None,
    "none": None,
}
