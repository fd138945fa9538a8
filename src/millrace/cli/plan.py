"""`millrace plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from millrace.cli.options import (
    FileArgument,
    FormatOption,
    OldOption,
    OldProfileOption,
    OutputOption,
    ProfileOption,
)
from millrace.cli.output import Output, loaded_pair, show, show_json
from millrace.cli.views.plan import plan_text
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.wire import plan_document

CHANGES = 2


def plan_command(
    file: FileArgument,
    old: OldOption = None,
    profile: ProfileOption = None,
    old_profile: OldProfileOption = None,
    file_format: FormatOption = None,
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
    desired, before = loaded_pair(file, profile, old, old_profile, file_format, output)
    steps = plan(desired, Observed(before) if before is not None else Observed(), {})
    if output is Output.JSON:
        show_json(plan_document(steps))
    else:
        show(plan_text(steps))
    if detailed_exitcode and not steps.empty:
        raise typer.Exit(CHANGES)
