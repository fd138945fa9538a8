"""`millrace tail`."""

from __future__ import annotations

import heapq
import json
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from millrace.cli.options import HomeOption, OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, say, time_option
from millrace.cli.send import PipelineOption, StreamArgument, running_log, stream_named
from millrace.cli.views.records import moment, record_document, record_text
from millrace.errors import OperationFailed
from millrace.model.stream import Format
from millrace.ports import Log, Record, Span

#: What is read back must be held, for each partition.
_LAST = 100_000


@dataclass(frozen=True, slots=True)
class Begin:
    """Where to begin: at a position, at a time, at the last `last` records, or at the end."""

    position: int | None = None
    time: datetime | None = None
    last: int = 0


def _begin(text: str) -> Begin:
    """Read --from; typer shows what is wrong with one."""
    if text in ("earliest", "latest"):
        return Begin(position=0) if text == "earliest" else Begin()
    if text.isascii() and text.isdigit() and len(text) < 19:
        return Begin(position=int(text))
    number = text.removeprefix("-")
    if number != text and number.isascii() and number.isdigit() and len(number) < 19:
        if not 0 < int(number) <= _LAST:
            raise typer.BadParameter(f"{text}: the last 1 to {_LAST} records can be shown")
        return Begin(last=int(number))
    try:
        found = moment(text)
        found.timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, a position, -N for the last N, "
            "or a time such as 2026-01-05T08:00:00Z"
        ) from None
    return Begin(time=found)


def tail(
    stream: StreamArgument,
    file: PipelineOption = "pipeline.yaml",
    begin: Annotated[
        Begin,
        typer.Option(
            "--from",
            parser=_begin,
            metavar="WHERE",
            help="earliest, latest, a position, an ISO time, or -N for the last N.",
        ),
    ] = "latest",  # type: ignore[assignment]  # typer parses defaults too
    count: Annotated[int | None, typer.Option(min=1, help="End after so many records.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            parser=time_option,
            metavar="TIME",
            help="End when nothing came for so long; 0s shows what is there now.",
        ),
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers/--no-headers", help="With the records' headers.")
    ] = True,
    output: OutputOption = Output.TEXT,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Show the records of a stream of a running pipeline, as they come, until Ctrl-C.

    A line is a record: its partition and position, time, key, value and headers.

    Example: [bold]millrace tail clean --from -10[/bold]
    """
    pipeline = required(loaded_file(file, profile), Output.TEXT)
    found = stream_named(pipeline, stream, file)
    printed = _printer(found.format, output, headers=headers)
    try:
        log = running_log(pipeline, found, home)
        spans = _spans(log, found.address, partition)
        if wait != 0:
            say(f"reading {stream}; Ctrl-C ends")
        records = _records(log, found.address, spans, begin, wait)
        for record in islice(records, count):
            printed(record)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except KeyboardInterrupt:  # the usual end
        return


def _spans(log: Log, address: str, partition: int | None) -> Mapping[int, Span]:
    spans = log.ends(address)
    if partition is None:
        return spans
    if partition not in spans:
        raise OperationFailed(
            "no-partition",
            f"{address} has no partition {partition}",
            f"it has {len(spans)}, counted from 0",
        )
    return {partition: spans[partition]}


def _records(
    log: Log, address: str, spans: Mapping[int, Span], begin: Begin, wait: float | None
) -> Iterator[Record]:
    """The records from some place on: up to now for a wait of 0, else as they come."""
    ends = {part: span.end for part, span in spans.items()}
    start = dict(ends)
    if begin.last:
        yield from _last(log, address, spans, begin.last)
    elif begin.time is not None:
        since = log.since(address, math.ceil(begin.time.timestamp() * 1000))
        start = {part: since[part] for part in spans}
    elif begin.position is not None:
        start = {part: max(begin.position, span.first) for part, span in spans.items()}
    if wait == 0:
        yield from log.read(address, start, ends)
    else:
        yield from log.read(address, start, wait=math.inf if wait is None else wait)


def _last(log: Log, address: str, spans: Mapping[int, Span], last: int) -> Iterator[Record]:
    """The last records over all partitions by their times, each partition in its own order."""
    start = {part: max(span.end - last, span.first) for part, span in spans.items()}
    found: dict[int | None, list[Record]] = {}
    for record in log.read(address, start, {part: span.end for part, span in spans.items()}):
        found.setdefault(record.partition, []).append(record)
    merged = heapq.merge(*found.values(), key=lambda record: record.time or 0)
    yield from deque(merged, maxlen=last)


def _printer(format_: Format, output: Output, *, headers: bool) -> Callable[[Record], None]:
    console = Console(soft_wrap=True, highlight=False)

    def printed(record: Record) -> None:
        if output is Output.JSON:
            document = record_document(record, format_, headers=headers)
            sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
        elif console.is_terminal:
            console.print(record_text(record, format_, headers=headers), end="")
        else:
            sys.stdout.write(record_text(record, format_, headers=headers).plain)
        sys.stdout.flush()  # who follows wants to see each at once

    return printed
