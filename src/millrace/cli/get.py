"""`millrace get`."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from millrace.cli.completing import pipeline_names
from millrace.cli.connection import remote
from millrace.cli.form import Form, FormOption, show_data, show_table
from millrace.cli.output import say
from millrace.cli.views.listing import LISTINGS, table
from millrace.cli.watching import watched
from millrace.client import Client
from millrace.errors import OperationFailed

Items = list[dict[str, Any]]


class Kind(StrEnum):
    """What can be listed."""

    PIPELINES = "pipelines"
    JOBS = "jobs"
    STREAMS = "streams"
    SITES = "sites"
    OPERATIONS = "operations"
    REVISIONS = "revisions"
    TOKENS = "tokens"


@remote
def get(
    client: Client,
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="What to list.")],
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="[PIPELINE]", help="Only of this pipeline.", autocompletion=pipeline_names
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on, and show what changes, until Ctrl-C.")
    ] = False,
    output: FormOption = Form.TABLE,
) -> None:
    """List pipelines, jobs, streams, sites, changes, versions of a file, or tokens.

    Example: [bold]millrace get jobs traffic --watch[/bold]
    """
    fetch = _fetching(client, kind, pipeline)
    if watch:
        watched(fetch, kind, output)
        return
    items = fetch()
    listing = LISTINGS[kind]
    if output is not Form.TABLE:
        show_data(items, output, [listing.name(item) for item in items])
    elif items:
        show_table(table(kind, items, time.time()))
    if not items:
        say(listing.empty)


def _fetching(client: Client, kind: Kind, pipeline: str | None) -> Callable[[], Items]:
    """How a list is asked for."""
    match kind:
        case Kind.JOBS:
            return _of_pipelines(client, client.jobs, pipeline)
        case Kind.STREAMS:
            return _of_pipelines(client, client.streams, pipeline)
        case Kind.REVISIONS:
            return _of_pipelines(client, client.revisions, pipeline)
        case Kind.PIPELINES if pipeline is not None:
            return lambda: [client.pipeline(pipeline)]
        case Kind.PIPELINES:
            return client.pipelines
        case Kind.OPERATIONS:
            return lambda: [
                item for item in client.operations() if pipeline in (None, item["pipeline"])
            ]
        case Kind.SITES:
            return lambda: [
                item for item in client.sites() if pipeline is None or pipeline in item["pipelines"]
            ]
        case Kind.TOKENS:
            if pipeline is not None:
                raise OperationFailed(
                    "no-scope", "tokens are of no pipeline", "leave its name out: get tokens"
                )
            return client.tokens


def _of_pipelines(
    client: Client, of_one: Callable[[str], Items], pipeline: str | None
) -> Callable[[], Items]:
    """Things of one pipeline, or of all of them."""
    if pipeline is not None:
        return lambda: of_one(pipeline)
    return lambda: [item for one in client.pipelines() for item in of_one(one["name"])]
