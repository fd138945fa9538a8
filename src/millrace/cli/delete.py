"""`millrace delete`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from millrace.cli.completing import pipeline_names
from millrace.cli.connection import remote
from millrace.cli.following import NoWaitOption, YesOption, agreed, finish, followed
from millrace.cli.form import Form, FormOption
from millrace.cli.output import say
from millrace.client import Client


class Deleted(StrEnum):
    """What can be removed."""

    PIPELINE = "pipeline"


@remote
def delete(
    client: Client,
    kind: Annotated[Deleted, typer.Argument(metavar="KIND", help="What to remove.")],  # noqa: ARG001 - one kind
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=pipeline_names)
    ],
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    output: FormOption = Form.TABLE,
) -> None:
    """Remove a pipeline: its jobs, its streams with their records, and its brokers.

    Example: [bold]millrace delete pipeline traffic[/bold]
    """
    view = client.pipeline(name)
    streams = client.streams(name)
    say(f"{name}: {view['jobs']} jobs and {len(streams)} streams go, with all records")
    agreed(f"Remove {name}?", yes=yes)
    operation = client.delete(name, if_revision=view["revision"])
    finish([operation if no_wait else followed(client, operation)], output)
