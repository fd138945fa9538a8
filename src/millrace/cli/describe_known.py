"""The part of `millrace describe` that asks a coordinator."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from millrace.cli.connection import job_parts
from millrace.cli.form import Form, show_data, show_table
from millrace.cli.output import show
from millrace.cli.views.description import described, steps_text
from millrace.cli.views.listing import table
from millrace.client import Client

#: What can be told in full.
KINDS = ("pipeline", "job", "stream", "site", "operation")


class Described(StrEnum):
    """How it is told."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


DescribedAs = Annotated[
    Described, typer.Option("--output", "-o", help="text for people; json or yaml for programs.")
]


def describe_known(client: Client, kind: str, name: str, output: Described) -> None:
    """Tell all about a thing of a coordinator; raises where there is none of that name."""
    view, now = _view(client, kind, name), time.time()
    if output is not Described.TEXT:
        show_data(view, Form(output.value))
        return
    show(described(kind, view, now))
    if kind == "operation":
        show(steps_text(view))
    if kind == "pipeline":
        for listed in ("jobs", "streams"):
            if view[f"{listed}_in_full"]:
                show("\n")
                show_table(table(listed, view[f"{listed}_in_full"], now))


def _view(client: Client, kind: str, name: str) -> dict[str, Any]:
    if kind == "pipeline":
        full = {
            "jobs_in_full": client.jobs(name),
            "streams_in_full": client.streams(name),
        }
        return {**client.pipeline(name), **full}
    if kind == "job":
        return client.job(*job_parts(name))
    if kind == "stream":
        return client.stream(*job_parts(name, "STREAM"))
    return client.site(name) if kind == "site" else client.operation(name)
