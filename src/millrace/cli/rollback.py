"""`millrace rollback`."""

from __future__ import annotations

from typing import Annotated

import typer

from millrace.cli.completing import pipeline_names
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
from millrace.cli.form import Form, FormOption
from millrace.cli.output import show
from millrace.cli.views.changes import as_planned, plan_view_text
from millrace.client import Client
from millrace.errors import OperationFailed


@remote
def rollback(
    client: Client,
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="Its name.", autocompletion=pipeline_names)
    ],
    to: Annotated[
        int | None,
        typer.Option("--to", min=1, help="The revision; by default the one in force before."),
    ] = None,
    note: NoteOption = "",
    allow_state_loss: StateLossOption = False,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    output: FormOption = Form.TABLE,
) -> None:
    """Put an old version of a pipeline's file in force again, with its code, as a new revision.

    Example: [bold]millrace rollback traffic --to 3[/bold]
    """
    number = to if to is not None else _before(client, pipeline)
    view = client.plan(client.file(pipeline, number), allow_state_loss=allow_state_loss)
    if output is Form.TABLE:
        show(plan_view_text(view))
    if view["steps"]:
        agreed(f"Go back to revision {number}?", yes=yes)
    operation = client.rollback(
        pipeline,
        number,
        note=note,
        allow_state_loss=allow_state_loss,
        if_revision=view["revision"],
    )
    done = operation if no_wait else followed(client, operation)
    finish([as_planned(done, view)], output)


def _before(client: Client, pipeline: str) -> int:
    """The revision that was in force before the one that is."""
    revisions = client.revisions(pipeline)
    current = next((item["number"] for item in revisions if item["in_force"]), 0)
    done = (item["number"] for item in revisions if item["outcome"] == "done")
    number = max((number for number in done if number < current), default=None)
    if number is None:
        raise OperationFailed(
            "no-revision",
            f"no other revision of {pipeline} was in force before",
            f"millrace get revisions {pipeline} lists them; --to N takes one",
        )
    return int(number)
