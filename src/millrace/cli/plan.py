"""`millrace plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.connection import (
    CertificateOption,
    HomeHereOption,
    ServerOption,
    TokenFileOption,
    failures_told,
    settings_of,
)
from millrace.cli.options import (
    FileArgument,
    FormatOption,
    OldOption,
    OldProfileOption,
    OutputOption,
    ProfileOption,
)
from millrace.cli.output import Output, fail, loaded_pair, say, show, show_json, write
from millrace.cli.prepared import SavedPlan, prepared
from millrace.cli.views.changes import plan_view_document, plan_view_text
from millrace.cli.views.plan import plan_text
from millrace.client import Client, Settings
from millrace.errors import OperationFailed
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import FileFormat
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
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no coordinator: as if nothing ran yet.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PLAN", help="Keep the plan for `apply --plan PLAN`."),
    ] = None,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    home: HomeHereOption = None,
) -> None:
    """Show what would change, in which order, why, and what each change costs.

    It is compared with OLD, or with what runs where a coordinator answers, or else with nothing:
    then everything is created, and no server is needed.

    Example: [bold]millrace plan --from old.yaml new.yaml[/bold]
    """
    with failures_told():
        settings = None
        if old is None and not offline:
            settings = _where(server, token_file, certificate, home, needed=out is not None)
        named = server is not None or out is not None
        if settings is not None:
            changes = _online(settings, file, profile, file_format, output, out, needed=named)
            if changes is not None:
                _end(detailed_exitcode and changes)
                return
        if out is not None:
            fail("--out keeps a plan against what runs", "leave --from and --offline out")
    desired, before = loaded_pair(file, profile, old, old_profile, file_format, output)
    steps = plan(desired, Observed(before) if before is not None else Observed(), {})
    if output is Output.JSON:
        show_json(plan_document(steps))
    else:
        show(plan_text(steps))
    _end(detailed_exitcode and not steps.empty)


def _end(changes: bool) -> None:
    if changes:
        raise typer.Exit(CHANGES)


def _where(
    server: str | None,
    token_file: Path | None,
    certificate: Path | None,
    home: Path | None,
    *,
    needed: bool,
) -> Settings | None:
    """Where to ask; None where no coordinator was ever started or named."""
    try:
        return settings_of(server, token_file, certificate, home)
    except OperationFailed as failure:
        if needed or failure.code != "not-up":
            raise
        return None


def _online(
    settings: Settings,
    file: str,
    profile: str | None,
    file_format: FileFormat | None,
    output: Output,
    out: Path | None,
    *,
    needed: bool,
) -> bool | None:
    """Plan against what runs; returns whether there are changes, None where nobody answers."""
    item = prepared(file, profile, output, file_format)
    try:
        with Client(settings) as client:
            view = client.plan(item.document)
    except OperationFailed as failure:
        if needed or failure.code != "unreachable" or file == "-":
            raise
        say(f"note: {settings.url} does not answer; planned as if nothing ran (--offline)")
        return None
    if output is Output.JSON:
        show_json(plan_view_document(view))
    else:
        show(plan_view_text(view))
    if out is not None:
        write(SavedPlan(item, view["revision"], view).text(), out)
    return bool(view["steps"])
