"""`millrace logs`."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from millrace.cli.completing import job_names
from millrace.cli.connection import job_parts, remote
from millrace.cli.output import say
from millrace.client import Client
from millrace.errors import OperationFailed

#: The most bytes of an answer, and of a whole end of a log.
_PIECE = 64 << 10
_MOST = 4 << 20
_SECONDS = 1.0


@remote
def logs(
    client: Client,
    job: Annotated[
        str, typer.Argument(metavar="PIPELINE/JOB", help="The job.", autocompletion=job_names)
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    tail: Annotated[int, typer.Option("--tail", min=0, help="How many of the last lines.")] = 100,
) -> None:
    """Show the log of the driver that runs a job, wherever that is.

    Example: [bold]millrace logs traffic/clean -f --tail 20[/bold]
    """
    pipeline, name = job_parts(job)
    lines, after = _end(client, pipeline, name, tail)
    sys.stdout.write("".join(lines))
    sys.stdout.flush()
    if not after and not follow:
        say(f"{job} has written nothing yet; millrace describe job {job} tells how it is")
    while follow:
        time.sleep(_SECONDS)
        try:
            piece = client.log(pipeline, name, after, _PIECE)
        except OperationFailed as failure:
            if not failure.transient:
                raise
            continue
        after = piece["next"]
        sys.stdout.write(piece["text"])
        sys.stdout.flush()


def _end(client: Client, pipeline: str, job: str, count: int) -> tuple[list[str], int]:
    """The last lines of a log, and where it goes on."""
    piece = client.log(pipeline, job, -1, _PIECE)
    text, after = piece["text"], piece["next"]
    start = max(after - _PIECE, 0)
    while start and text.count("\n") <= count and after - start < _MOST:
        earlier = max(start - _PIECE, 0)
        text = client.log(pipeline, job, earlier, start - earlier)["text"] + text
        start = earlier
    lines = text.splitlines(keepends=True)
    if start and len(lines) <= count:
        lines = lines[1:]  # the beginning of the first is not here
    return lines[len(lines) - count :] if count < len(lines) else lines, after
