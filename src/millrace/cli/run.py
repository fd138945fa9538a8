"""`millrace run`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from millrace.cli.lasting import fetching, logged, stopping
from millrace.cli.options import FileArgument, FormatOption, HomeOption, OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, say, show_json, time_option
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import JobState, JobStatus

if TYPE_CHECKING:
    from millrace.agent.watch import Watch
    from millrace.coordinator.local import LocalRun

_LOOK_SECONDS = 0.5


def run_command(
    file: FileArgument = "pipeline.yaml",
    profile: ProfileOption = None,
    file_format: FormatOption = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", parser=time_option, metavar="TIME", help="Stop after this time."),
    ] = None,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Work off what is there now, then stop.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="At the stop, first work off what is there.")
    ] = False,
    output: OutputOption = Output.TEXT,
    home: HomeOption = None,
) -> None:
    """Run a pipeline on this machine until Ctrl-C: brokers, Spark, streams and jobs.

    Nothing needs to be installed or started by hand; jars are fetched once. Ctrl-C stops so that
    nothing is lost and nothing is repeated, and the next run goes on from there; a second Ctrl-C
    ends at once. With -o json the last state is printed at the end.

    Example: [bold]millrace run pipeline.yaml --for 60s[/bold]
    """
    pipeline = required(loaded_file(file, profile, file_format), output)
    if not pipeline.jobs:
        fail(f"{file} has no jobs", "write at least one under jobs:")
    code = Path(file).absolute().parent if file != "-" else Path.cwd()
    try:
        from millrace.agent.state import alone  # noqa: PLC0415 - Spark and Kafka are extras

        folders = Folders.of(home)
        with alone(folders.pipeline(pipeline.name)):
            failed = _run(pipeline, folders, code, seconds, output, until_drained, drain)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed", "pip install 'millrace[spark,kafka,measure]'")
    if failed:
        raise typer.Exit(1)


def _run(
    pipeline: Pipeline,
    folders: Folders,
    code: Path,
    seconds: float | None,
    output: Output,
    until_drained: bool,
    drain: bool,
) -> bool:
    """Run it to its end; whether a job had failed then. Raises for one that was not drained."""
    from millrace.agent.watch import Watch  # noqa: PLC0415
    from millrace.cli.views.run import views_document  # noqa: PLC0415
    from millrace.coordinator.local import local_run  # noqa: PLC0415
    from millrace.measure.metrics import Metrics  # noqa: PLC0415
    from millrace.measure.metrics_server import MetricsServer  # noqa: PLC0415

    place, metrics = folders.pipeline(pipeline.name), Metrics()
    with (
        logged(place / "run.log") as tell,
        MetricsServer(metrics, place / "metrics.token") as server,
        fetching() as told,
        _signals(),
    ):
        runner = local_run(pipeline, folders, code, tell, told)
        runner.start()
        watch = Watch(runner, metrics)
        try:
            tell(f"metrics: {server.address} (token in {place / 'metrics.token'})")
            tell(f"{pipeline.name} runs: {len(pipeline.jobs)} jobs; Ctrl-C stops it")
            with _interruptible():
                if not until_drained:
                    _watched(runner, watch, seconds, quiet=output is Output.JSON)
            left = _worked_off(runner) if until_drained or drain else None
            views = watch.views()
            watch.close()
            say("stopping; a second Ctrl-C ends at once")
            runner.end()
        except BaseException as error:
            runner.kill()  # whatever it is: nothing of ours is left behind
            if not isinstance(error, KeyboardInterrupt):
                raise
            say("ended at once; the next run finds what was written")
            raise typer.Exit(130) from None
    if output is Output.JSON:
        show_json(views_document(pipeline.name, views, watch.peaks, watch.promised))
    say("stopped; millrace run goes on from here")
    if left is not None:
        raise left
    return any(failed(view.status, again=view.job in runner.restarts) for view in views)


def failed(status: JobStatus, *, again: bool) -> bool:
    """Whether a job was not as it shall be at the end: it had failed, for good or just then.

    One that was started `again` and is not up yet has not proven that it can be.
    """
    if status.state is JobState.FAILED or (again and status.state is JobState.STARTING):
        return True
    return bool(status.error) and not status.transient


def _worked_off(runner: LocalRun) -> OperationFailed | None:
    """Drain all jobs; returns why one was not, for after the stop."""
    say("working off what is there")
    try:
        runner.drain()
    except OperationFailed as failure:
        return failure
    return None


def _watched(runner: LocalRun, watch: Watch, seconds: float | None, *, quiet: bool) -> None:
    """Keep the pipeline running and show it until the time is over or Ctrl-C comes."""
    from millrace.cli.views.run import jobs_table  # noqa: PLC0415

    until = None if seconds is None else time.monotonic() + seconds
    console = Console(stderr=True)
    shown = console.is_terminal and not quiet
    with (
        Live(console=console, auto_refresh=False, transient=False) if shown else _nothing() as live
    ):
        while until is None or time.monotonic() < until:
            runner.tick()
            if runner.complete:
                say(_over(runner.given_up))
                return
            if live is not None:
                note = ", ".join(f"{name} restarted {n}x" for name, n in runner.restarts.items())
                live.update(jobs_table(runner.pipeline.name, watch.views(), note), refresh=True)
            time.sleep(_LOOK_SECONDS)


def _over(given_up: Mapping[str, str]) -> str:
    if not given_up:
        return "all jobs are over"
    failures = "; ".join(f"job {name} failed: {error}" for name, error in given_up.items())
    return f"all other jobs are over; {failures}"


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def _interruptible() -> Iterator[None]:
    """The first Ctrl-C only ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        say("")


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM is taken as Ctrl-C is, and Ctrl-C also where a shell began us without it."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in stopping()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
