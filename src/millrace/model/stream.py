"""Named flows of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal

from millrace.errors import Location
from millrace.model.impact import Impact, setting
from millrace.model.quantity import Duration, Rate, Records, Size
from millrace.model.types import (
    AtLeast,
    Count,
    GroupName,
    Options,
    Plugs,
    SiteName,
    StreamName,
)


class Transport(StrEnum):
    """What carries a stream."""

    KAFKA = "kafka"
    MQTT = "mqtt"
    ZMQ = "zmq"


class Format(StrEnum):
    """How a record is written down."""

    RAW = "raw"
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    ARROW = "arrow"


class Encryption(StrEnum):
    """How a stream is kept from strangers."""

    NONE = "none"
    TLS = "tls"
    CURVE = "curve"


class Promise(StrEnum):
    """What writers promise of each record."""

    AT_LEAST_ONCE = "at-least-once"
    NO_DUPLICATES = "no-duplicates"


#: They keep no records for who comes later: how far one has read is known only to itself.
UNKEPT: Final = frozenset({Transport.MQTT, Transport.ZMQ})
#: What to write instead of a setting that only a log can keep.
WITHOUT_LOG: Final = {
    "partitions": "write partitions: 1",
    "compact": "leave compact out (retain: true keeps the last message of MQTT)",
    "retention": "leave retention out",
}
#: One of ours, or what the plug-in of a broker calls itself.
TransportName = Annotated[str, Plugs("brokers", Transport)]
Port = Annotated[int, AtLeast(1, 65_535)]
Schema = Mapping[str, str]


@dataclass(frozen=True)
class Stream:
    """A named flow of records, written by jobs or from outside, read by jobs or outside."""

    SECTION: ClassVar[Literal["streams"]] = "streams"
    SHORT: ClassVar[str | None] = None

    name: str = ""
    at: Location | None = field(default=None, compare=False, repr=False)
    description: str = setting("a note for people", change=Impact.IGNORE, default="")
    site: SiteName | None = setting(
        "the site whose broker carries it; by default its writers' site",
        change=Impact.REPLACE,
        default=None,
    )
    group: GroupName | None = setting(
        "the group whose defaults it takes", change=Impact.IGNORE, default=None
    )
    transport: TransportName | None = setting(
        "what carries it; by default the site's broker", change=Impact.REPLACE, default=None
    )
    topic: str | None = setting(
        "its name on the broker; by default the stream's own", change=Impact.REPLACE, default=None
    )
    port: Port | None = setting("the port of a direct stream", change=Impact.RESTART, default=None)
    format: Format = setting(
        "how records are written down", change=Impact.REPLACE, default=Format.JSON
    )
    schema: Schema | None = setting(
        "columns and their types, as Spark's SQL names them",
        change=Impact.RESTART,
        default=None,
        example="{vehicle: string, speed: double, at: timestamp}",
    )
    key: tuple[str, ...] = setting(
        "the columns that make a record's key", change=Impact.REPLACE, default=()
    )
    partitions: Count = setting("how many partitions", change=Impact.RESCALE, default=1)
    encryption: Encryption = setting(
        "how it is kept from strangers", change=Impact.RESTART, default=Encryption.NONE
    )
    buffer: Records | Size | None = setting(
        "how much a direct stream holds", change=Impact.RESTART, default=None
    )
    transfer: str | None = setting(
        "how a direct stream is carried", change=Impact.RESTART, default=None
    )
    retention: Duration | Size | None = setting(
        "how long, or how much, the log keeps", change=Impact.IGNORE, default=None
    )
    max_record: Size | None = setting(
        "the greatest record that passes", change=Impact.RESTART, default=None
    )
    compact: bool = setting(
        "keep only the last record of each key", change=Impact.RESTART, default=False
    )
    promise: Promise = setting(
        "the default promise of its writers", change=Impact.RESTART, default=Promise.AT_LEAST_ONCE
    )
    dead_letters: StreamName | None = setting(
        "where malformed records go", change=Impact.RESTART, default=None
    )
    rate: Rate | None = setting(
        "how fast it flows, where that is known", change=Impact.IGNORE, default=None
    )
    transient: bool = setting(
        "need not be stored: jobs on both sides may become one query",
        change=Impact.REPLACE,
        default=False,
    )
    options: Options | None = setting(
        "settings by the broker's own names", change=Impact.RESTART, default=None
    )

    @property
    def needs_log(self) -> tuple[str, ...]:
        """The settings that it has and only a log can keep; see `WITHOUT_LOG`."""
        wanted = (self.partitions > 1, self.compact, self.retention is not None)
        return tuple(name for name, asked in zip(WITHOUT_LOG, wanted, strict=True) if asked)

    @property
    def address(self) -> str:
        """Return its name on the broker."""
        return self.topic or self.name
