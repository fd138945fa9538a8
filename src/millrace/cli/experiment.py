"""`millrace experiment`: measurements that can be repeated."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millrace.cli.lasting import asked_to_stop
from millrace.cli.options import OutputOption
from millrace.cli.output import Output, fail, say, show, show_json
from millrace.errors import OperationFailed
from millrace.experiment.declaration import Declaration, given_values
from millrace.experiment.links import Link, Way
from millrace.experiment.matrix import runs
from millrace.experiment.registry import Registry

if TYPE_CHECKING:
    from millrace.experiment.campaign import Outcome
    from millrace.experiment.port import Experiment
    from millrace.experiment.report import Report

app = typer.Typer(help="Measure: declared experiments with tables and plots.", no_args_is_help=True)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="An experiment, or a YAML file that declares one.")
]


@app.callback()
def main() -> None:
    """Measure: declared experiments with tables and plots."""


@app.command("list")
def list_experiments(output: OutputOption = Output.TEXT) -> None:
    """List the experiments that are installed.

    Example: [bold]millrace experiment list[/bold]
    """
    registry = Registry.installed()
    rows: list[dict[str, Any]] = []
    for name in registry.names():
        try:
            declared = registry.load(name).declared
        except OperationFailed as failure:  # the others are still worth a line
            rows.append({"name": name, "title": f"({failure.message})", "runs": 0})
            continue
        rows.append({"name": name, "title": declared.title, "runs": len(runs(declared))})
    if output is Output.JSON:
        show_json(rows)
        return
    width = max(len(row["name"]) for row in rows)
    show(
        "".join(f"{row['name']:<{width}}  {row['runs']:>4} runs  {row['title']}\n" for row in rows)
    )


@app.command("show")
def show_experiment(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Show what an experiment varies and measures, and over which links.

    Example: [bold]millrace experiment show fog-cloud[/bold]
    """
    _, declared = _found(name)
    if output is Output.JSON:
        show_json(_document(declared))
    else:
        show(_text(declared))


@app.command("run")
def run_experiment(
    name: NameArgument,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=V1,V2", help="Other values; may be repeated."),
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="How often each cell is run.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the first repeat.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for results; else experiment-NAME here.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small matrix, for a look.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out what the folder holds already.")
    ] = False,
    links: Annotated[Way | None, typer.Option(help="How links are made; else as declared.")] = None,
    plot: Annotated[bool, typer.Option(help="Draw the results.")] = True,
) -> None:
    """Run an experiment: results as lines of JSON, a table, a plot, and a page about it.

    Ctrl-C keeps what was measured and ends all that was started; --resume goes on from there.

    Example: [bold]millrace experiment run speck-figure-6 --quick --out figure-6[/bold]
    """
    experiment, declared = _found(name)
    try:
        if quick:
            declared = declared.quickened()
        declared = declared.with_values(given_values(values or []))
        declared = replace(
            declared,
            repeats=declared.repeats if repeats is None else repeats,
            seed=declared.seed if seed is None else seed,
            way=links or declared.way,
        )
        folder = out or Path(f"experiment-{declared.name}")
        outcome, report = _performed(experiment, declared, folder, resume=resume, plot=plot)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
        return
    _tell(outcome, report, folder)
    if outcome.stopped:
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


def _performed(
    experiment: Experiment, declared: Declaration, folder: Path, *, resume: bool, plot: bool
) -> tuple[Outcome, Report | None]:
    from millrace.experiment.campaign import Campaign  # noqa: PLC0415 - only this command needs it
    from millrace.experiment.plot import require_matplotlib  # noqa: PLC0415
    from millrace.experiment.report import write_report  # noqa: PLC0415

    if plot:
        require_matplotlib()
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    with asked_to_stop() as stop:
        campaign = Campaign(experiment, declared, folder, say, stop, command, resume)
        outcome = campaign.perform()
        report = write_report(experiment, campaign.declared, outcome, folder, plotted=plot)
    return outcome, report


def _tell(outcome: Outcome, report: Report | None, folder: Path) -> None:
    if report is not None:
        show(report.table)
        for finding in report.findings:
            say(finding)
        say("wrote " + ", ".join(str(file) for file in report.files))
    if outcome.stopped:
        say(f"stopped; what was measured is in {folder}: --resume --out {shlex.quote(str(folder))}")
    if outcome.failed:
        say(f"{outcome.failed} runs failed; --resume tries them again")


def _found(name: str) -> tuple[Experiment, Declaration]:
    try:
        return Registry.installed().found(name)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
        raise


def _document(declared: Declaration) -> dict[str, Any]:
    return {
        "name": declared.name,
        "of": declared.of,
        "title": declared.title,
        "about": declared.about,
        "paper": declared.paper,
        "matrix": {factor: list(values) for factor, values in declared.matrix.items()},
        "setup": list(declared.setup),
        "repeats": declared.repeats,
        "seed": declared.seed,
        "warmup": declared.warmup,
        "carried_by": declared.way.value,
        "links": [link.document() for link in declared.links],
        "measures": {
            measure.name: {"unit": measure.unit, "means": measure.means}
            for measure in declared.measures
        },
    }


def _text(declared: Declaration) -> str:
    quick = declared.quickened()
    lines = [declared.title, "", declared.about, ""]
    lines += [
        f"  {factor:<12} {', '.join(str(value) for value in values)}"
        for factor, values in declared.matrix.items()
    ]
    lines += [
        "",
        f"{declared.repeats} repeats from seed {declared.seed}, {declared.warmup} to warm up: "
        f"{len(runs(declared))} runs; with --quick {len(runs(quick))}",
        "",
    ]
    lines += [f"  {m.name:<12} {m.unit:<9} {m.means}" for m in declared.measures]
    if declared.links:
        lines += ["", f"links, by {declared.way}:", *(_link(link) for link in declared.links)]
    return "\n".join(lines) + "\n"


def _link(link: Link) -> str:
    width = "" if link.bandwidth is None else f", {link.bandwidth * 8 / 1e6:g} Mbit/s"
    loss = f", {link.loss:.2%} lost" if link.loss else ""
    ends = " - ".join(link.sites)
    return f"  {link.name:<16} {ends}: {link.latency * 1000:g} ms one way{width}{loss}"
