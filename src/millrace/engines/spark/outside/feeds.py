"""Which feed a job's `read` or `every` means, told as text to the processes that read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from millrace.engines.spark.outside.feed import Feed, SourceFailed
from millrace.engines.spark.outside.replay import Replay, TimeOf
from millrace.engines.spark.typed import reader
from millrace.machine.secrets import revealed
from millrace.model.stream import Format
from millrace.ports import BrokerPlugin
from millrace.ports.plugins import BROKERS, installed


@dataclass(frozen=True, slots=True)
class Description:
    """A feed, as it is told; fields that a kind does not need are left empty."""

    #: The name of the stream that stands for it.
    name: str
    kind: str
    path: str = ""
    #: Where it may keep what it must know of files.
    kept: str = ""
    holds: str = ""
    #: Whether files are complete.
    whole: bool = False
    speed: float = 1.0
    by: str = ""
    #: How lines are written, and their columns.
    format: str = ""
    schema: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    address: str = ""
    #: Where the password is, never itself.
    password: str = ""
    seconds: float = 0.0
    #: Whether to go on without what is gone before it was read.
    lossy: bool = False
    #: By partition, where a first reader begins in a spool or a log.
    begin: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """Return it as it travels."""
        return json.dumps(asdict(self))


def feed_of(text: str) -> Feed:
    """Return the feed that was described; what only one of them needs is loaded for that one."""
    told = Description(**json.loads(text))
    if told.kind == "ticks":
        from millrace.engines.spark.outside.ticks import Ticks  # noqa: PLC0415

        return Ticks(told.name, told.seconds)
    if told.kind in ("spool", "log"):
        return _carried(told)
    if told.kind == "replay":
        return Replay(told.name, _there(told), told.speed, _time_of(told))
    if told.kind == "query":
        from millrace.engines.spark.outside.database import opened  # noqa: PLC0415
        from millrace.engines.spark.outside.rows import Rows  # noqa: PLC0415

        password = revealed(told.password, f"{told.name}.password") if told.password else None
        return Rows(
            told.name, partial(opened, told.address, password, told.query, told.by), told.seconds
        )
    return _files(told)


def _carried(told: Description) -> Feed:
    from millrace.engines.spark.outside.spooled import Logged, Spooled  # noqa: PLC0415

    if told.kind == "spool":
        return Spooled(told.name, Path(told.path), told.begin)
    settings = json.loads(Path(told.path).read_text("utf-8"))
    plugin: BrokerPlugin = installed().load(BROKERS, told.holds)
    return Logged(told.name, plugin.log(settings), told.begin)


def _files(told: Description) -> Feed:
    from millrace.engines.spark.outside.numbering import Numbering  # noqa: PLC0415

    files = Numbering(told.path, Path(told.kept))
    if told.holds == "parquet":
        from millrace.engines.spark.outside.tables import Tables  # noqa: PLC0415

        return Tables(told.name, files, lossy=told.lossy)
    from millrace.engines.spark.outside.lines import Lines  # noqa: PLC0415

    return Lines(told.name, files, whole=told.whole, lossy=told.lossy)


def _there(told: Description) -> Path:
    path = Path(told.path)
    if not path.is_file():
        raise SourceFailed(f"there is no file {path}: look at `replay`")
    return path


def _time_of(told: Description) -> TimeOf:
    """What tells the time of a line in seconds; None where it can't be read."""
    read = reader(Format(told.format), told.schema)

    def time_of(line: bytes) -> float | None:
        row = read(line.rstrip(b"\r\n"))
        moment = None if row is None else row.get(told.by)
        return moment.timestamp() if isinstance(moment, datetime) else None

    return time_of
