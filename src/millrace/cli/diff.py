"""`millrace diff`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from millrace.cli.connection import remote
from millrace.cli.form import Form, FormOption, show_data
from millrace.cli.options import ProfileOption
from millrace.cli.output import Output, say, show
from millrace.cli.prepared import prepared
from millrace.cli.views.difference import difference, difference_text, fields
from millrace.client import Client, Refused

#: As kubectl has it: 0 is no difference, 1 is one, more is an error.
DIFFERENT, ERROR = 1, 2


@partial(remote, error=ERROR)
def diff(
    client: Client,
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="The pipeline file.")],
    profile: ProfileOption = None,
    output: FormOption = Form.TABLE,
) -> None:
    """Show in which fields a file differs from the one in force, and both as a unified diff.

    Exits with 0 where nothing differs, 1 where something does, and 2 where that can't be told.

    Example: [bold]millrace diff -f pipeline.yaml[/bold]
    """
    try:
        item = prepared(file, profile, Output.JSON if output is Form.JSON else Output.TEXT)
    except typer.Exit:
        raise typer.Exit(ERROR) from None
    try:
        before = client.file(item.name)
    except Refused as refused:
        if refused.status != 404:
            raise
        say(f"there is no {item.name} yet: all of it is new")
        before = {}
    found = fields(before, item.document)
    text = difference(before, item.document, item.name, file)
    if output is Form.TABLE:
        show(difference_text(found, text))
    else:
        rows = [{"field": path, "old": old, "new": new} for path, old, new in found]
        document = {"pipeline": item.name, "fields": rows, "diff": text}
        show_data(document, output, [path for path, _, _ in found])
    if found:
        raise typer.Exit(DIFFERENT)
