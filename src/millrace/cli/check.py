"""`millrace check`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from millrace.cli.options import OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, show, show_json, time_option
from millrace.errors import OperationFailed, nearest
from millrace.measure.load import Load
from millrace.measure.stamp import SCHEMA
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Format, Stream

if TYPE_CHECKING:
    from millrace.measure.fault import RunReport


def check(
    stream_in: Annotated[str, typer.Argument(metavar="IN", help="The stream to write to.")],
    stream_out: Annotated[str, typer.Argument(metavar="OUT", help="The stream to read.")],
    file: Annotated[str, typer.Option("--file", "-f", help="The pipeline file.")] = "pipeline.yaml",
    rate: Annotated[float, typer.Option(min=0.001, help="Records a second.")] = 2000,
    seconds: Annotated[
        float, typer.Option("--for", parser=time_option, metavar="TIME", help="How long to write.")
    ] = "60s",  # type: ignore[assignment]  # typer parses defaults too
    wait: Annotated[
        float,
        typer.Option(parser=time_option, metavar="TIME", help="How long to wait for the last."),
    ] = "60s",  # type: ignore[assignment]
    keys: Annotated[int, typer.Option(min=1, help="How many keys.")] = 100,
    size: Annotated[int, typer.Option(min=0, help="About how many bytes a record has.")] = 200,
    seed: Annotated[int, typer.Option(help="Chooses the keys.")] = 1,
    home: Annotated[Path | None, typer.Option(help="Where the pipeline keeps its state.")] = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send numbered records through a running pipeline; tell what was lost, repeated or reordered.

    Its jobs must pass the columns run, writer, seq, key, sent, pad and crc on as they are. Order is
    by key, so OUT needs the key `key` if it has more than one partition.

    Example: [bold]millrace check raw clean -f pipeline.yaml --rate 500 --for 30s[/bold]
    """
    pipeline = required(loaded_file(file, profile), output)
    streams = _stream(pipeline, stream_in, file), _stream(pipeline, stream_out, file)
    try:
        load = Load(rate, seconds, keys, size, seed)
        found = _measured(pipeline, *streams, load, wait, home)
    except ValueError as error:
        fail(str(error), "change --rate or --for")
        return
    except ImportError as error:  # a client of the broker, or the histogram
        fail(f"{error.name} is not installed", "pip install 'millrace[kafka,measure]'")
        return
    except OperationFailed as error:
        fail(error.message, error.hint)
        return
    if output is Output.JSON:
        show_json(found.document())
    else:
        show(check_text(found, stream_in, stream_out))
    if not found.ok:
        raise typer.Exit(1)


def _measured(
    pipeline: Pipeline, source: Stream, end: Stream, load: Load, wait: float, home: Path | None
) -> RunReport:
    # These need extras, which the other commands do without.
    from millrace.agent.brokers import log_of  # noqa: PLC0415
    from millrace.machine import Folders  # noqa: PLC0415
    from millrace.measure.run import run_check  # noqa: PLC0415

    folders = Folders.of(home)
    return run_check(
        log_of(pipeline, source, folders),
        source.address,
        log_of(pipeline, end, folders),
        end.address,
        load,
        run=uuid.uuid4().hex[:12],
        wait=wait,
    )


def _stream(pipeline: Pipeline, name: str, file: str) -> Stream:
    """The stream, if the checker's records fit into it."""
    if name not in pipeline.streams:
        near = nearest(name, pipeline.streams)
        known = f"did you mean {near}?" if near else f"known are {', '.join(pipeline.streams)}"
        fail(f"{file} has no stream {name!r}", known)
    stream = pipeline.streams[name]
    if stream.format is not Format.JSON:
        fail(f"stream {name} has the format {stream.format}", "the checker's records are json")
    lacking = [column for column in SCHEMA if stream.schema and column not in stream.schema]
    if lacking:
        columns = ", ".join(f"{column}: {kind}" for column, kind in SCHEMA.items())
        fail(
            f"stream {name} has no column {', '.join(lacking)}, which the checker's records have",
            f"declare it with schema: {{{columns}}}",
        )
    return stream


def check_text(found: RunReport, stream_in: str, stream_out: str) -> Text:
    """Return the books of a run for people, and a closing line."""
    text = Text(f"{stream_in} -> {stream_out}\n\n", style="bold")
    rows = list(_rows(found))
    width = max(len(name) for name, _, _ in rows)
    for name, value, wrong in rows:
        text.append(f"  {name:<{width}}  ").append(f"{value}\n", style="red" if wrong else "")
    problems = found.problems()
    text.append("\n")
    for problem in problems:
        text.append("Problem: ", style="red").append(f"{problem}\n")
    closing = f"{len(problems)} found" if problems else "each record arrived once, in order"
    return text.append(f"Check: {closing}.\n", style="bold red" if problems else "bold green")


def _rows(found: RunReport) -> Iterator[tuple[str, str, bool]]:
    """Names, values, and whether a value is one that should be 0."""
    report = found.report
    seconds = found.load_ended - found.load_started
    yield "sent", f"{report.sent} in {seconds:.1f} s", not report.sent
    yield "read", str(report.read), False
    for name in ("missing", "duplicate", "reordered", "unexpected", "corrupt"):
        value = str(getattr(report, name))
        yield name, value, value != "0"
    if report.foreign:
        yield "of other runs", str(report.foreign), False
    for name in ("p50", "p99", "max"):
        took = getattr(report.latency, name)
        yield f"latency {name}", "-" if took is None else f"{took * 1000:.1f} ms", False
