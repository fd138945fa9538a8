"""Changes from their beginning to their end: asked for, followed step by step, and told."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from millrace.cli.form import Form, show_data
from millrace.cli.output import fail, say, show
from millrace.cli.views.changes import downtime_text, failed_text, outcome_text, progress_lines
from millrace.client import Client

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before it begins.")]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Return as soon as it has begun.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why, for who reads the list later.")]
StateLossOption = Annotated[
    bool,
    typer.Option("--allow-state-loss", help="Jobs may lose what they keep, where they must."),
]


def agreed(question: str, *, yes: bool) -> None:
    """Ask on a terminal, and end where the answer is no; elsewhere there is nobody to ask."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm(question, err=True):
        say("nothing was changed")
        raise typer.Exit(1)


def followed(
    client: Client, operation: dict[str, Any], seconds: float | None = None
) -> dict[str, Any]:
    """Return a change when it is over, or the time is; each step is told on stderr."""
    told: dict[str, str] = {}

    def tell(view: dict[str, Any]) -> None:
        for line in progress_lines(view, told):
            say(line)

    if operation["over"]:
        return operation
    tell(operation)
    try:
        return client.wait(operation["id"], seconds, tell)
    except KeyboardInterrupt:
        say(f"{operation['id']} goes on; millrace wait {operation['id']} waits for it")
        raise typer.Exit(130) from None


def finish(views: list[dict[str, Any]], output: Form) -> None:
    """Show what became of changes; ends with 1 where one did not get done."""
    if output is Form.TABLE:
        for view in views:
            show(downtime_text(view))
            show(f"{outcome_text(view)}\n")
    else:
        show_data(views[0] if len(views) == 1 else views, output, [view["id"] for view in views])
    for view in views:
        if view["over"] and view["state"] != "done":
            fail(*failed_text(view))
