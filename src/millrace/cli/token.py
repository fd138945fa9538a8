"""`millrace token`: who may do what."""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.completing import pipeline_names
from millrace.cli.connection import remote
from millrace.cli.form import Form, FormOption, show_data, show_table
from millrace.cli.output import say, time_option
from millrace.cli.views.listing import LISTINGS, table
from millrace.client import Client
from millrace.errors import OperationFailed

app = typer.Typer(help="Who may do what.", no_args_is_help=True)


class Role(StrEnum):
    """What a token may do; a later one may do all that an earlier one may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.callback()
def main() -> None:
    """Who may do what."""


@app.command("create")
@remote
def create(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, for people.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.VIEWER,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            help="Only for this pipeline; may be repeated.", autocompletion=pipeline_names
        ),
    ] = None,
    site: Annotated[
        str | None, typer.Option(help="For the agent of this site, and nothing else.")
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option(parser=time_option, metavar="TIME", help="Holds for so long, such as 30d."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it to a new file, mode 0600."),
    ] = None,
    output: FormOption = Form.TABLE,
) -> None:
    """Make a token. It is shown this once, or written to a file that only you can read.

    Example: [bold]millrace token create edge --site north --out north.token[/bold]
    """
    descriptor = _opened(out) if out is not None else None
    try:
        made = client.issue_token(
            name,
            role.value,
            pipelines=pipeline or None,
            site=site,
            expires_seconds=None if expires is None else max(int(expires), 1),
        )
    except BaseException:
        if descriptor is not None and out is not None:
            os.close(descriptor)
            out.unlink()
        raise
    text = made["token"]
    if descriptor is not None:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
        made = {key: value for key, value in made.items() if key != "token"}
        say(f"wrote {out}; use it with --token-file {out}")
    if output is not Form.TABLE:
        show_data(made, output, [made["id"]])
    elif out is None:
        sys.stdout.write(f"{text}\n")
        say("keep it well: it is not shown again")


def _opened(path: Path) -> int:
    """A new file that only its owner reads, before there is anything to write."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise OperationFailed(
            "no-file", f"{path} can't be made: {error.strerror}", "give another path with --out"
        ) from None


@app.command("list")
@remote
def list_tokens(client: Client, output: FormOption = Form.TABLE) -> None:
    """List all tokens, without their secrets.

    Example: [bold]millrace token list[/bold]
    """
    found = client.tokens()
    if output is Form.TABLE:
        show_table(table("tokens", found, time.time()))
    else:
        show_data(found, output, [LISTINGS["tokens"].name(item) for item in found])


@app.command("revoke")
@remote
def revoke(
    client: Client,
    token: Annotated[str, typer.Argument(metavar="ID", help="Its id, as `token list` shows it.")],
) -> None:
    """Take a token back: it holds no more, at once.

    Example: [bold]millrace token revoke k3j9x0ab[/bold]
    """
    client.revoke_token(token)
    say(f"{token} holds no more")
