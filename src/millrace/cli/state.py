"""`millrace state`: what jobs keep."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from millrace.cli.options import HomeOption, OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, say, show, show_json
from millrace.cli.send import PipelineOption
from millrace.errors import OperationFailed, nearest
from millrace.machine import Folders

if TYPE_CHECKING:
    from millrace.engines.spark.keyed.show import Shown

app = typer.Typer(help="What jobs keep.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """What jobs keep."""


@app.command("show")
def show_state(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job with state per key.")],
    file: PipelineOption = "pipeline.yaml",
    key: Annotated[
        str | None,
        typer.Option(help="Only this key: its column's value, or a JSON object of several."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Show so many keys at most.")] = 1000,
    profile: ProfileOption = None,
    output: OutputOption = Output.TEXT,
    home: HomeOption = None,
) -> None:
    """Show what a job keeps of each key, as of its last batch; it may run meanwhile.

    Example: [bold]millrace state show journeys --key car-7[/bold]
    """
    pipeline = required(loaded_file(file, profile), output)
    if job not in pipeline.jobs:
        near = nearest(job, pipeline.jobs)
        known = ", ".join(list(pipeline.jobs)[:10])
        fail(f"there is no job {job!r} in {file}",
             f"did you mean {near!r}?" if near else f"its jobs are {known}")  # fmt: skip
    try:
        from millrace.agent.inspect import state_of  # noqa: PLC0415 - Spark is an extra

        with state_of(pipeline, pipeline.jobs[job], Folders.of(home), key) as found:
            shown = list(islice(found, most + 1))
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed", "pip install 'millrace[spark,kafka,measure]'")
    more = len(shown) > most
    if output is Output.JSON:
        show_json({"job": job, "keys": [_document(item) for item in shown[:most]], "more": more})
        return
    for item in shown[:most]:
        show(_line(item))
    if not shown:
        say(f"job {job} keeps nothing of " + ("any key" if key is None else f"key {key}"))
    if more:
        say(f"there are more than {most} keys; --most shows more, --key one of them")


def _document(item: Shown) -> dict[str, Any]:
    return {
        "key": item.key,
        "state": json.loads(json.dumps(item.state, default=str)),
        "timers": [at.isoformat() for at in item.timers],
        "last": item.last.isoformat(),
    }


def _line(item: Shown) -> Text:
    text = Text(" ".join(str(value) for value in item.key.values()), style="bold")
    text.append("  " + json.dumps(item.state, default=str, ensure_ascii=False), style="not bold")
    if item.timers:
        due = ", ".join(at.isoformat(timespec="seconds") for at in item.timers)
        text.append(f"  (timers: {due})", style="dim not bold")
    return text.append("\n")
