"""`millrace send`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from millrace.cli.options import HomeOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, say
from millrace.cli.views.records import Columns, key_of, time_of
from millrace.errors import OperationFailed, nearest
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Format, Stream
from millrace.ports import Log, Record

StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="A stream of the pipeline.")]
PipelineOption = Annotated[str, typer.Option("--file", "-f", help="The pipeline file.")]
Timed = tuple[Record, float | None]

_SHOWN_SECONDS = 0.25
_LONGEST_SLEEP = 3600.0


def _speed(text: str) -> float:
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise typer.BadParameter(f"{text!r} is not a speed such as 1x, 10x or 0.5")
    return speed


def send(
    stream: StreamArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA]...", help="Files of records; - or none is stdin."),
    ] = None,
    file: PipelineOption = "pipeline.yaml",
    rate: Annotated[float | None, typer.Option(min=0.001, help="Records a second.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(parser=_speed, metavar="SPEED", help="By the records' own times: 1x, 10x."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", help="The column of --speed; by default the only timestamp."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="The column of the key, if not the stream's; may be repeated."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="A whole file is one record.")] = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Send lines to a stream of a running pipeline, each as one record and byte by byte.

    The key is made of the stream's key columns; a line that can't be read has none and is sent all
    the same. Ctrl-C ends after the records that are on their way.

    Example: [bold]millrace send raw sample.jsonl --speed 10x[/bold]
    """
    names = files or ["-"]
    if rate is not None and speed is not None:
        fail("--rate and --speed can't be had together", "leave one of them out")
    if file == "-" and "-" in names:
        fail("stdin can't be both the pipeline file and the records", "give one of them as a file")
    pipeline = required(loaded_file(file, profile), Output.TEXT)
    found = stream_named(pipeline, stream, file)
    try:
        columns = _columns(found, key or [], time_column, timed=speed is not None)
        items = _records(_values(names, whole=whole), columns)
        log = running_log(pipeline, found, home)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
        return
    _send(log, found, paced(items, rate, speed))


def stream_named(pipeline: Pipeline, name: str, file: str) -> Stream:
    """Return a stream of a pipeline, or end with the nearest name."""
    if name not in pipeline.streams:
        near = nearest(name, pipeline.streams)
        known = f"known are {', '.join(pipeline.streams)}" if pipeline.streams else "it has none"
        fail(f"{file} has no stream {name!r}", f"did you mean {near}?" if near else known)
    return pipeline.streams[name]


def running_log(pipeline: Pipeline, stream: Stream, home: Path | None) -> Log:
    """Return the log that holds a stream; raises where its broker does not run."""
    try:
        from millrace.agent.brokers import log_of  # noqa: PLC0415 - Kafka's client is an extra
    except ModuleNotFoundError as missing:
        message = f"{missing.name} is not installed"
        raise OperationFailed("no-client", message, "pip install 'millrace[kafka]'") from missing
    return log_of(pipeline, stream, Folders.of(home))


def _columns(
    stream: Stream, key: Sequence[str], time_column: str | None, *, timed: bool
) -> Columns:
    """What is taken from each record, checked against what the stream has."""
    wanted = [*key, *([time_column] if time_column else [])]
    if (wanted or timed) and stream.format not in (Format.JSON, Format.CSV):
        raise OperationFailed(
            "no-columns",
            f"stream {stream.name} has the format {stream.format}, whose records have no columns",
            "leave out --key, --time and --speed; --rate works with every format",
        )
    for name in wanted:
        if stream.schema and name not in stream.schema:
            near = nearest(name, stream.schema)
            raise OperationFailed(
                "no-column",
                f"stream {stream.name} has no column {name!r}",
                f"did you mean {near}?" if near else f"it has {', '.join(stream.schema)}",
            )
    if (wanted or timed) and stream.format is Format.CSV and not stream.schema:
        raise OperationFailed(
            "no-schema",
            f"stream {stream.name} is csv and has no schema, so its columns have no names",
            f"write streams.{stream.name}.schema: {{column: type, ...}}",
        )
    at = (time_column or _only_time(stream)) if timed else None
    return Columns(stream.format, tuple(stream.schema or ()), tuple(key) or stream.key, at)


def _only_time(stream: Stream) -> str:
    kinds = {name: kind.strip().lower() for name, kind in (stream.schema or {}).items()}
    times = [name for name, kind in kinds.items() if kind.startswith("timestamp")]
    if len(times) == 1:
        return times[0]
    found = f"several timestamps: {', '.join(times)}" if times else "no timestamp column"
    raise OperationFailed(
        "no-time",
        f"--speed needs the records' times, and stream {stream.name} declares {found}",
        "name the column with --time COLUMN, or use --rate",
    )


def _values(names: Sequence[str], *, whole: bool) -> Iterator[bytes]:
    """The values of all records in their order; all files are tried before the first is read."""
    for name in names:
        if name == "-":
            continue
        try:
            with Path(name).open("rb"):
                pass
        except OSError as error:
            raise OperationFailed(
                "no-file", f"{name} can't be read: {error.strerror}", "check the path"
            ) from error
    return _read(names, whole=whole)


def _read(names: Sequence[str], *, whole: bool) -> Iterator[bytes]:
    for name in names:
        if name == "-":
            if sys.stdin.isatty():
                say("a line is a record; Ctrl-D ends")
            yield from [sys.stdin.buffer.read()] if whole else _lines(sys.stdin.buffer)
            continue
        with Path(name).open("rb") as data:
            yield from [data.read()] if whole else _lines(data)


def _lines(data: Iterable[bytes]) -> Iterator[bytes]:
    return (line.removesuffix(b"\n") for line in data)


def _records(values: Iterable[bytes], columns: Columns) -> Iterator[Timed]:
    """Each value with its key, and its time in seconds where that is asked for."""
    if not columns.key and columns.time is None:
        return ((Record(value), None) for value in values)

    def parsed() -> Iterator[Timed]:
        for value in values:
            fields = columns.read(value)
            yield Record(value, key_of(fields, columns.key)), time_of(fields, columns.time)

    return parsed()


def paced(
    items: Iterable[Timed],
    rate: float | None,
    speed: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Record]:
    """Yield each record when it is due, by the count or by its own time; late ones come at once.

    All is reckoned from the first record, so nothing drifts.
    """
    begun: float | None = None
    first = 0.0
    for number, (record, at) in enumerate(items):
        due = None
        if rate is not None:
            due = number / rate
        elif speed is not None and at is not None:
            first = at if begun is None else first
            due = (at - first) / speed
        if due is not None:
            begun = clock() if begun is None else begun
            while (early := begun + due - clock()) > 0:
                sleep(min(early, _LONGEST_SLEEP))
        yield record


class Feed:
    """Records on their way to a log. A stop ends them in between, so the log ends in order."""

    def __init__(self, records: Iterable[Record], told: Callable[[int], object]) -> None:
        self._records = iter(records)
        self._told = told
        self._waiting = False
        self.count = 0
        self.stopped = False
        self.failure: OSError | None = None

    def __iter__(self) -> Iterator[Record]:
        while not self.stopped:
            try:
                self._waiting = True
                record = next(self._records, None)
                self._waiting = False
            except KeyboardInterrupt:  # of `stop`, while a line or its time was waited for
                return
            except OSError as error:
                self.failure = error
                return
            finally:
                self._waiting = False
            if record is None:
                return
            self.count += 1
            self._told(self.count)
            yield record

    def stop(self, _: int = 0, __: FrameType | None = None) -> None:
        """End after the record that is on its way; called again, at once."""
        again, self.stopped = self.stopped, True
        if again or self._waiting:
            raise KeyboardInterrupt


def _send(log: Log, stream: Stream, records: Iterator[Record]) -> None:
    with _progress() as told:
        feed = Feed(records, told)
        try:
            with _signals(feed.stop):
                count = log.write(stream.address, feed)
        except OperationFailed as failure:
            lost = f"; of {_counted(feed.count)} any part may be there" if feed.count else ""
            fail(f"{failure.message}{lost}", failure.hint)
            return
        except KeyboardInterrupt:
            say(f"ended at once; of {_counted(feed.count)} any part may be in {stream.name}")
            raise typer.Exit(130) from None
    say(f"sent {_counted(count)} to {stream.name}" + (", then stopped" if feed.stopped else ""))
    if feed.failure is not None:
        fail(f"reading failed: {feed.failure}", "send the rest of the records again")
    if feed.stopped:
        raise typer.Exit(130)


def _counted(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


@contextmanager
def _signals(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the block in order."""
    taken = (signal.SIGINT, signal.SIGTERM)
    before: list[Any] = [signal.signal(number, stop) for number in taken]
    try:
        yield
    finally:
        for number, handler in zip(taken, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _progress() -> Iterator[Callable[[int], object]]:
    """Show how many records have gone and how fast, where somebody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    begun = shown = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def told(count: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= _SHOWN_SECONDS:
                shown = now
                text = Text(f"{count:,} records, {count / (now - begun):,.0f}/s")
                live.update(text, refresh=True)

        yield told
