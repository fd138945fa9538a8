"""`millrace events`."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Annotated, Any

import typer

from millrace.cli.completing import pipeline_names
from millrace.cli.connection import remote
from millrace.cli.form import Form, FormOption, show_data
from millrace.cli.output import say, show
from millrace.cli.views.journal import concerns, entry_text
from millrace.client import Client

#: So many of the last are shown where nobody says from where on.
_LAST = 50


@remote
def events(
    client: Client,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    pipeline: Annotated[
        str | None,
        typer.Option(help="Only what concerns this pipeline.", autocompletion=pipeline_names),
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Only what comes behind this number.")
    ] = None,
    output: FormOption = Form.TABLE,
) -> None:
    """Show what happened, from the coordinator's journal: changes, steps, sites, tokens.

    Without --after the last 50 are shown.

    Example: [bold]millrace events --pipeline traffic -f[/bold]
    """
    found, last = _past(client, pipeline, after)
    if follow:
        for entry in found:
            _print(entry, output)
        for kind, _, entry in client.events(last, metrics=0, told=lambda broken: say(str(broken))):
            if kind == "journal" and concerns(entry, pipeline):
                _print(entry, output)
    elif output is Form.TABLE:
        for entry in found:
            show(entry_text(entry))
    else:
        show_data(found, output, [str(entry["number"]) for entry in found])
    if not found:
        say("nothing happened yet; bring a pipeline: millrace apply -f pipeline.yaml")


def _past(
    client: Client, pipeline: str | None, after: int | None
) -> tuple[list[dict[str, Any]], int]:
    """What is in the journal, and the number of its last entry."""
    last = after or 0
    found: deque[dict[str, Any]] = deque(maxlen=_LAST if after is None else None)
    for entry in client.journal(last):
        last = entry["number"]
        if concerns(entry, pipeline):
            found.append(entry)
    return list(found), last


def _print(entry: dict[str, Any], output: Form) -> None:
    """Print an entry at once; for programs a line or a document for each."""
    match output:
        case Form.TABLE:
            show(entry_text(entry))
        case Form.NAME:
            sys.stdout.write(f"{entry['number']}\n")
        case Form.JSON:
            sys.stdout.write(json.dumps(entry, ensure_ascii=False) + "\n")
        case Form.YAML:
            show_data([entry], output)
    sys.stdout.flush()
