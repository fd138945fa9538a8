"""`millrace graph`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from millrace.cli.options import (
    FileArgument,
    FormatOption,
    OldOption,
    OldProfileOption,
    OutOption,
    ProfileOption,
)
from millrace.cli.output import Output, loaded_pair, write
from millrace.draw import dot, mermaid, picture, svg
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.plan.fuse import fusion


class Drawing(StrEnum):
    """The formats of a picture."""

    SVG = "svg"
    MERMAID = "mermaid"
    DOT = "dot"


_DRAW = {Drawing.SVG: svg, Drawing.MERMAID: mermaid, Drawing.DOT: dot}


def graph(
    file: FileArgument,
    old: OldOption = None,
    profile: ProfileOption = None,
    old_profile: OldProfileOption = None,
    file_format: FormatOption = None,
    drawing: Annotated[
        Drawing, typer.Option("--output", "-o", help="The format of the picture.")
    ] = Drawing.SVG,
    out: OutOption = None,
) -> None:
    """Draw a pipeline: sites as boxes, jobs and streams inside; with --from, the plan.

    Example: [bold]millrace graph pipeline.yaml --out pipeline.svg[/bold]
    """
    desired, before = loaded_pair(file, profile, old, old_profile, file_format, Output.TEXT)
    found = fusion(desired)
    steps = None if before is None else plan(desired, Observed(before), {})
    shown = picture(desired, before, steps, found.groups, found.inside)
    write(_DRAW[drawing](shown), out)
