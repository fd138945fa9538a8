"""`millrace peek`."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from millrace.cli.completing import stream_names
from millrace.cli.connection import job_parts, remote
from millrace.cli.form import Form, FormOption, show_data
from millrace.cli.output import say, show
from millrace.cli.views.records import record_text
from millrace.client import Client
from millrace.model.stream import Format
from millrace.ports import Record


@remote
def peek(
    client: Client,
    stream: Annotated[
        str,
        typer.Argument(metavar="PIPELINE/STREAM", help="The stream.", autocompletion=stream_names),
    ],
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=500, help="How many.")] = 10,
    output: FormOption = Form.TABLE,
) -> None:
    """Show the last records of a stream, wherever its broker is.

    A line is a record: its partition and position, time, key and value.

    Example: [bold]millrace peek traffic/clean -n 3[/bold]
    """
    pipeline, name = job_parts(stream, "STREAM")
    found = client.records(pipeline, name, count)
    if output is Form.TABLE:
        format_ = Format(client.stream(pipeline, name)["format"])
        for item in found:
            show(record_text(_record(item), format_, headers=False))
    else:
        show_data(found, output, [f"{item['partition']}/{item['position']}" for item in found])
    if not found:
        say(f"{stream} holds no records")


def _record(item: dict[str, Any]) -> Record:
    return Record(
        _bytes(item["value"]),
        _bytes(item["key"]),
        partition=item["partition"],
        position=item["position"],
        time=item["time"],
    )


def _bytes(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode("utf-8", "surrogatepass")
