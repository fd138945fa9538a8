"""`millrace apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from millrace.cli.connection import remote
from millrace.cli.following import (
    NoteOption,
    NoWaitOption,
    StateLossOption,
    YesOption,
    agreed,
    finish,
    followed,
)
from millrace.cli.form import Form, FormOption, show_data
from millrace.cli.options import ProfileOption
from millrace.cli.output import Output, fail, show
from millrace.cli.prepared import Prepared, SavedPlan, prepared
from millrace.cli.views.changes import as_planned, plan_view_document, plan_view_text
from millrace.client import Client
from millrace.errors import OperationFailed

FilesOption = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE", help="A pipeline file; may be repeated."),
]


@remote
def apply(
    client: Client,
    files: FilesOption = None,
    profile: ProfileOption = None,
    note: NoteOption = "",
    allow_state_loss: StateLossOption = False,
    site_lost: Annotated[
        list[str] | None,
        typer.Option(
            "--site-lost",
            metavar="SITE",
            help="You vouch that this site is down: its jobs start elsewhere. May be repeated.",
        ),
    ] = None,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    if_revision: Annotated[
        int | None,
        typer.Option(min=0, help="Only if this is the newest revision; 0: if there is none."),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="What `plan --out` kept, instead of a file."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and change nothing.")
    ] = False,
    output: FormOption = Form.TABLE,
) -> None:
    """Make what runs what a file says: shows the plan, asks, and follows it step by step.

    What goes wrong is undone. Exits with 0 when it is done, and with 1 when it is not.

    Example: [bold]millrace apply -f pipeline.yaml --note "faster windows"[/bold]
    """
    brought = _brought(files, saved, profile, if_revision, output)
    given: dict[str, Any] = {"allow_state_loss": allow_state_loss, "lost_sites": site_lost or ()}
    plans = [client.plan(item.document, **given) for item, _ in brought]
    if output is Form.TABLE:
        for view in plans:
            show(plan_view_text(view))
    if dry_run:
        if output is not Form.TABLE:
            documents = [plan_view_document(view) for view in plans]
            names = [item.name for item, _ in brought]
            show_data(documents[0] if len(documents) == 1 else documents, output, names)
        return
    if any(view["steps"] for view in plans):
        agreed("Do it?", yes=yes)
    done: list[dict[str, Any]] = []
    for (item, expected), view in zip(brought, plans, strict=True):
        operation = client.apply(
            item.document,
            code=item.uploaded(client),
            note=note,
            **given,
            # What was shown is what is done: a change that came in between is no part of it.
            if_revision=view["revision"] if expected is None else expected,
        )
        done.append(as_planned(operation if no_wait else followed(client, operation), view))
        if done[-1]["over"] and done[-1]["state"] != "done":
            break
    finish(done, output)


def _brought(
    files: list[str] | None,
    saved: Path | None,
    profile: str | None,
    if_revision: int | None,
    output: Form,
) -> list[tuple[Prepared, int | None]]:
    """The files, each with the revision that its user made it for."""
    if (saved is None) == (not files):
        fail("nothing says what to apply" if saved is None else "a plan has its file already",
             "give either -f FILE or --plan PLAN")  # fmt: skip
    if saved is not None:
        kept = SavedPlan.read(saved)
        return [(kept.prepared, kept.revision if if_revision is None else if_revision)]
    problems = Output.JSON if output is Form.JSON else Output.TEXT
    found = [prepared(file, profile, problems) for file in files or ()]
    names = [item.name for item in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OperationFailed(
            "twice", f"two files are of the pipeline {twice}", "apply one after the other"
        )
    if if_revision is not None and len(found) > 1:
        raise OperationFailed(
            "several", "--if-revision is about one pipeline", "apply one file after the other"
        )
    return [(item, if_revision) for item in found]
