"""`millrace graph`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from millrace.cli.options import FileArgument, OutOption, ProfileOption
from millrace.cli.output import Output, loaded_file, required, write
from millrace.draw import dot, mermaid, picture, svg
from millrace.model.status import Observed
from millrace.plan import plan


class Drawing(StrEnum):
    """The formats of a picture."""

    SVG = "svg"
    MERMAID = "mermaid"
    DOT = "dot"


_DRAW = {Drawing.SVG: svg, Drawing.MERMAID: mermaid, Drawing.DOT: dot}


def graph(
    file: FileArgument,
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="OLD", help="Mark what changes between OLD and FILE."),
    ] = None,
    profile: ProfileOption = None,
    drawing: Annotated[
        Drawing, typer.Option("--output", "-o", help="The format of the picture.")
    ] = Drawing.SVG,
    out: OutOption = None,
) -> None:
    """Draw a pipeline: sites as boxes, jobs and streams inside; with --from, the plan.

    Example: [bold]millrace graph pipeline.yaml --out pipeline.svg[/bold]
    """
    desired = required(loaded_file(file, profile), Output.TEXT)
    if old is None:
        write(_DRAW[drawing](picture(desired)), out)
        return
    before = required(loaded_file(old, profile), Output.TEXT)
    steps = plan(desired, Observed(before), {})
    write(_DRAW[drawing](picture(desired, before, steps)), out)
