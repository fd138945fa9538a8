"""`millrace plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from millrace.cli.options import FileArgument, OutputOption, ProfileOption
from millrace.cli.output import Output, loaded_file, required, show, show_json
from millrace.cli.views.plan import plan_text
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.wire import plan_document

CHANGES = 2


def plan_command(
    file: FileArgument,
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="OLD", help="What runs now, as a file of any format."),
    ] = None,
    profile: ProfileOption = None,
    old_profile: Annotated[
        str | None, typer.Option("--from-profile", help="The profile of OLD, if another.")
    ] = None,
    output: OutputOption = Output.TEXT,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 0: no changes, 1: error, 2: changes."),
    ] = False,
) -> None:
    """Show what would change, in which order, why, and what each change costs.

    Without --from nothing runs yet, and everything is created. No server is needed.

    Example: [bold]millrace plan --from old.yaml new.yaml[/bold]
    """
    desired = required(loaded_file(file, profile), output)
    observed = Observed()
    if old is not None:
        observed = Observed(required(loaded_file(old, old_profile or profile), output))
    steps = plan(desired, observed, {})
    if output is Output.JSON:
        show_json(plan_document(steps))
    else:
        show(plan_text(steps))
    if detailed_exitcode and not steps.empty:
        raise typer.Exit(CHANGES)
