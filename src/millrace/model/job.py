"""The unit of composition: code with inputs and outputs at a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Literal

from millrace.errors import Location
from millrace.model.impact import Impact, setting
from millrace.model.outside import Read, Write
from millrace.model.policy import (
    Checkpoint,
    End,
    Failover,
    OnError,
    Overload,
)
from millrace.model.quantity import Duration, Records
from millrace.model.site import EngineKind, EngineName
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
    begin: Start | None = setting(
        "where to begin without a position; by default a stream that was there before a change is "
        "read from where it ended when that began, and any other from its first record",
        change=Impact.IGNORE,
        key="start",
        default=None,
    )
    by: str | None = setting(
        "the timestamp column that holds its records' time, for joins and `unique`", default=None
    )
    lateness: Duration | None = setting(
        "how long its late records are waited for, in joins", default=None
    )
    unique: tuple[str, ...] = setting(
        "columns of which each value comes once; records that repeat one are left out", default=()
    )
    within: Duration | None = setting(
        "how long a `unique` value is remembered, in the records' own time", default=None
    )
    table: bool = setting(
        "read as a table: the last record of each key, as they are when a batch begins",
        default=False,
    )
    consumes: Count | None = setting(
        "records taken per firing, for the balance check", change=Impact.IGNORE, default=None
    )

    @property
    def start(self) -> Start:
        """Where an engine begins that nobody gave a position."""
        return self.begin or Start.EARLIEST


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
        "aggregate",
        "state",
        "read",
        "write",
        "bridge",
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
    engine: EngineName | None = setting(
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
    aggregate: Mapping[str, str] | None = setting(
        "the columns of each window's result: count(*), or count, sum, mean, min or max of "
        "something; the engine's own windows take all of its aggregates",
        default=None,
        example="{cars: count(*), mean: mean(speed)}",
    )
    state: KeyedState | None = setting("code with state per key", default=None)
    read: Read | None = setting("a source beside brokers", default=None)
    write: Write | None = setting("a sink beside brokers", default=None)
    bridge: bool | None = setting(
        "copies records as they are, to a stream of whatever broker", default=None, example="true"
    )
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
        "fires by time instead of by input: each time its code gets a record of `tick` and `at`",
        change=Impact.RESTART,
        default=None,
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
    version: str | None = setting(
        "the version of its code; made from its files where it is not given",
        change=Impact.RESTART,
        default=None,
    )

    #: The jobs that are one query under this one's name, in the direction of the data; no file
    #: says so, the planner does. Inputs and outputs are then those of the query.
    members: tuple[Job, ...] = field(default=(), repr=False)

    @property
    def lease(self) -> float | None:
        """For how many seconds it may run unheard of, all of its query; None is without limit."""
        every = [one.failover for one in self.members or (self,)]
        known = [float(it.after.seconds) for it in every if it is not None]
        return min(known) if len(known) == len(every) else None

    @property
    def exact(self) -> bool:
        """Return whether it must be known exactly which records its windows hold."""
        if self.window is None or (self.aggregate is None and self.map is None):
            return False
        asked = self.map is not None or self.window.late is not None
        return asked or self.window.kind != "timestamp"

    @property
    def windows(self) -> str:
        """Return whose windows it has, in words; empty without one."""
        if self.window is None:
            return ""
        return "Millrace's own, exact" if self.exact else "the engine's own, fast"

    @property
    def ticks(self) -> bool:
        """Return whether its windows may close though no record comes."""
        window = self.window
        return self.exact and window is not None and window.ticks

    @property
    def keeps_state(self) -> bool:
        """Return whether Millrace itself keeps state for it, and not only its engine."""
        return self.exact or self.state is not None

    @property
    def outside(self) -> bool:
        """Return whether it reads or writes something that is on no broker, its clock included."""
        return self.read is not None or self.write is not None or self.every is not None

    def time_of(self, port: Input) -> str | None:
        """Return the column of the own time of an input's records, if the job goes by one."""
        if self.window is not None and self.window.kind == "timestamp":
            return self.window.by
        return port.by or (self.state.by if self.state is not None else None)

    @property
    def remembers(self) -> bool:
        """Return whether the file says that its engine keeps records or sums of them."""
        return self.window is not None or any(port.by is not None for port in self.inputs)

    @property
    def kind(self) -> str:
        """Return which of KINDS the job is; `none` where a file forgot to say."""
        return next((kind for kind in self.KINDS if getattr(self, kind) is not None), "none")

    @property
    def has_code(self) -> bool:
        """Whether it runs something of the user's that is not in the file itself."""
        return self.kind in ("python", "map", "state", "jar", "process", "generator")

    @property
    def needs(self) -> str | None:
        """Return the engine it runs on; None for a generator, which brings its own."""
        return self.engine or ENGINE_OF[self.kind]

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the names of the streams it reads."""
        return tuple(port.stream for port in self.inputs)

    @property
    def follows(self) -> tuple[str, ...]:
        """Return the names of the streams whose records it works on one by one: not its tables."""
        return tuple(port.stream for port in self.inputs if not port.table)

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the names of the streams it writes."""
        return tuple(port.stream for port in self.outputs)


ENGINE_OF: Final[Mapping[str, EngineKind | None]] = {
    "sql": EngineKind.SPARK,
    "python": EngineKind.SPARK,
    "map": EngineKind.SPARK,
    "aggregate": EngineKind.SPARK,
    "state": EngineKind.SPARK,
    "read": EngineKind.SPARK,
    "write": EngineKind.SPARK,
    "bridge": EngineKind.SPARK,
    "jar": EngineKind.SPARK,
    "process": EngineKind.PROCESS,
    "generator": None,
    "none": None,
}
