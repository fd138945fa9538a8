"""`millrace wait`."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from millrace.cli.completing import operation_names
from millrace.cli.connection import remote
from millrace.cli.following import followed
from millrace.cli.output import fail, say, time_option
from millrace.cli.views.changes import failed_text, outcome_text
from millrace.client import Client, Refused
from millrace.errors import OperationFailed

_SECONDS = 0.5
_MINUTES = re.compile(r"[0-9.]+m")


class Until(StrEnum):
    """What is waited for."""

    DONE = "done"
    RUNNING = "running"
    REMOVED = "removed"


def _timeout(text: str) -> float:
    """A time; `5m` is 5 min here, as with other tools that wait."""
    return time_option(f"{text}in" if _MINUTES.fullmatch(text) else text)


@remote
def wait(
    client: Client,
    name: Annotated[
        str,
        typer.Argument(
            metavar="OPERATION|PIPELINE",
            help="A change, or a pipeline, whose last change is meant.",
            autocompletion=operation_names,
        ),
    ],
    until: Annotated[
        Until,
        typer.Option("--for", help="A change is done; all jobs run; the pipeline is gone."),
    ] = Until.DONE,
    timeout: Annotated[
        float, typer.Option(parser=_timeout, metavar="TIME", help="For how long at most.")
    ] = "5m",  # type: ignore[assignment]  # typer parses defaults too
) -> None:
    """Wait for a change to be done, for a pipeline to run, or for it to be gone.

    Exits with 1 when it went otherwise, or when the time is over.

    Example: [bold]millrace wait traffic --for running --timeout 2m[/bold]
    """
    operation = _operation(client, name)
    if until is Until.DONE:
        if operation is None:
            fail(f"nothing was changed in {name} yet", "millrace get operations lists changes")
        else:
            _over(followed(client, operation, timeout))
        return
    pipeline = operation["pipeline"] if operation is not None else name
    end = time.monotonic() + timeout
    while not _is(client, pipeline, until):
        if time.monotonic() > end:
            fail(f"{pipeline} is not {until} in time", f"millrace describe pipeline {pipeline}")
        time.sleep(_SECONDS)
    say(f"{pipeline} is {until}")


def _operation(client: Client, name: str) -> dict[str, Any] | None:
    """The change of that name, or the last one of the pipeline of that name."""
    try:
        return client.operation(name)
    except Refused as refused:
        if refused.status != 404:
            raise
    try:
        last = client.pipeline(name)["operation"]
    except Refused as refused:
        if refused.status != 404:
            raise
        last = None
    return client.operation(last) if last is not None else None


def _over(view: dict[str, Any]) -> None:
    if not view["over"] or view["state"] != "done":
        fail(*failed_text(view))
    say(outcome_text(view))


def _is(client: Client, pipeline: str, until: Until) -> bool:
    try:
        view = client.pipeline(pipeline)
    except Refused as refused:
        if until is Until.REMOVED and refused.status == 404:
            return True
        if not refused.transient:
            raise
        return False
    except OperationFailed as failure:
        if not failure.transient:
            raise
        return False
    if until is Until.REMOVED:
        return bool(view["state"] == "removed")
    return bool(view["state"] == "running" and view["running"] == view["jobs"])
