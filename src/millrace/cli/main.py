"""`millrace`: the command and its sub-commands."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer

from millrace import __version__
from millrace.cli import agent as agent_module
from millrace.cli import (
    apply,
    check,
    convert,
    delete,
    describe,
    diff,
    events,
    experiment,
    get,
    graph,
    logs,
    new,
    peek,
    plan,
    rollback,
    send,
    state,
    tail,
    token,
    top,
    validate,
    wait,
)
from millrace.cli import run as run_module
from millrace.cli import up as up_module
from millrace.cli.interrupt import insisting
from millrace.machine.secrets import keep_from_cores

app = typer.Typer(
    name="millrace",
    help="Compose, deploy and adapt stream pipelines over many sites.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new")(new.new)
app.command("validate")(validate.validate)
app.command("plan")(plan.plan_command)
app.command("graph")(graph.graph)
app.command("run")(run_module.run_command)
app.command("up")(up_module.up)
app.command("agent")(agent_module.agent)
app.command("send")(send.send)
app.command("tail")(tail.tail)
app.command("check")(check.check)
app.command("describe")(describe.describe)
app.add_typer(state.app, name="state")
app.command("explain")(validate.explain)
app.command("schema")(convert.schema_command)
app.command("import")(convert.import_file)
app.command("export")(convert.export_file)
app.add_typer(experiment.app, name="experiment")

_PANEL = "Commands that ask a coordinator"
for _name, _command in (
    ("apply", apply.apply),
    ("diff", diff.diff),
    ("rollback", rollback.rollback),
    ("delete", delete.delete),
    ("wait", wait.wait),
    ("get", get.get),
    ("top", top.top),
    ("logs", logs.logs),
    ("peek", peek.peek),
    ("events", events.events),
):
    app.command(_name, rich_help_panel=_PANEL)(_command)
app.add_typer(token.app, name="token", rich_help_panel=_PANEL)

#: Exit code for wrong usage where 2 means "there are changes".
USAGE = 64
#: What typer raises for wrong usage; it exports only its child.
_UsageError: Any = typer.BadParameter.__base__


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"millrace {__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colours; also by NO_COLOR=1.")
    ] = False,
) -> None:
    """Compose, deploy and adapt stream pipelines over many sites."""
    if no_color:
        os.environ["NO_COLOR"] = "1"


def run() -> None:
    """Run the command; no traceback reaches a user for what they typed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal can't show must not end us
            stream.reconfigure(errors="backslashreplace")
    keep_from_cores()
    try:
        with insisting():
            code = app(standalone_mode=False)
        sys.exit(code)
    except _UsageError as error:
        error.show()
        sys.exit(USAGE if "--detailed-exitcode" in sys.argv else error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # `millrace graph ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
