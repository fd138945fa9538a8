"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.output import Output
from millrace.spec import FileFormat

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A pipeline file of any known format; - is stdin.")
]
ProfileOption = Annotated[str | None, typer.Option("--profile", "-p", help="The profile to take.")]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="text for people, json for programs.")
]
FormatOption = Annotated[
    FileFormat | None,
    typer.Option("--format", help="The file's format; found out by itself where not given."),
]
OldOption = Annotated[
    str | None,
    typer.Option("--from", metavar="OLD", help="What runs now, as a file of any format."),
]
OldProfileOption = Annotated[
    str | None, typer.Option("--from-profile", help="The profile of OLD, if another.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write to this file instead of stdout.")
]
HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Where state is kept; also by MILLRACE_HOME."),
]
SharedOption = Annotated[
    Path | None,
    typer.Option(
        "--shared",
        metavar="DIR",
        help="A folder that all sites see, at the same path: for checkpoints that say at: shared.",
    ),
]
