"""`millrace import`, `millrace export` and `millrace schema`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from millrace.cli.options import FileArgument, FormatOption, OutOption, OutputOption, ProfileOption
from millrace.cli.output import Output, loaded_file, required, say, show_problems, write
from millrace.errors import Diagnostic, ExportError
from millrace.model.pipeline import Pipeline
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import load_text
from millrace.spec.schema import schema
from millrace.spec.skepu_export import skepu_of
from millrace.spec.speck import speck_of
from millrace.spec.yaml_writer import write_yaml
from millrace.wire import pipeline_document


class ExportAs(StrEnum):
    """The formats that can be written."""

    NATIVE = "native"
    SPECK = "speck"
    SKEPU = "skepu"


def import_file(
    file: FileArgument,
    file_format: FormatOption = None,
    output: OutputOption = Output.TEXT,
    out: OutOption = None,
) -> None:
    """Translate a file of SpecK, of SkePU-Streaming or a pilot description to Millrace's own.

    Example: [bold]millrace import composition.yaml --out pipeline.yaml[/bold]
    """
    pipeline = required(loaded_file(file, None, file_format), Output.TEXT)
    write(_native(pipeline, output), out)


def export_file(
    file: FileArgument,
    target: Annotated[ExportAs, typer.Option("--as", help="The format to write.")],
    profile: ProfileOption = None,
    file_format: FormatOption = None,
    output: OutputOption = Output.TEXT,
    out: OutOption = None,
) -> None:
    """Write a pipeline in another format; what that can't say is told, never left out silently.

    Example: [bold]millrace export pipeline.yaml --as speck[/bold]
    """
    loaded = loaded_file(file, profile, file_format)
    pipeline = required(loaded, Output.TEXT)
    try:
        text = _written(pipeline, target, output)
        _read_back(text, pipeline, target)
    except ExportError as error:
        show_problems(error.diagnostics, [loaded], Output.TEXT)
        raise typer.Exit(1) from None
    write(text, out)


def _read_back(text: str, pipeline: Pipeline, target: ExportAs) -> None:
    """Make sure that a foreign file says all of it: what it reads back as must need no change."""
    if target is ExportAs.NATIVE:
        return
    again = load_text(text, f"<the pipeline as {target}>")
    if again.pipeline is None:
        raise ExportError(again.diagnostics)
    lost = [
        Diagnostic(
            "not-sayable",
            f"{target} can't say all of {step.kind} {step.name!r}",
            hint="export as native",
            found="; ".join(reason.text for reason in step.reasons),
        )
        for step in plan(again.pipeline, Observed(pipeline), {}).steps
        if any(reason.field != "site" or reason.impact for reason in step.reasons)
    ]
    if lost:
        raise ExportError(lost)
    if again.pipeline.name != pipeline.name:
        say(f"note: {target} has no place for the name {pipeline.name!r}")
    if again.pipeline.streams.keys() != pipeline.streams.keys():
        say(f"note: {target} names streams by their topics")
    if again.pipeline.sites.keys() != pipeline.sites.keys():
        say(f"note: {target} names sites by their addresses")


def _written(pipeline: Pipeline, target: ExportAs, output: Output) -> str:
    if target is ExportAs.SKEPU:
        return skepu_of(pipeline)
    if target is ExportAs.NATIVE:
        return _native(pipeline, output)
    document = speck_of(pipeline)
    return _json(document) if output is Output.JSON else write_yaml(document)


def _native(pipeline: Pipeline, output: Output) -> str:
    document = pipeline_document(pipeline)
    return _json(document) if output is Output.JSON else write_yaml(document)


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def schema_command(out: OutOption = None) -> None:
    """Print the JSON Schema of pipeline files, for editors.

    Example: [bold]millrace schema --out pipeline.schema.json[/bold]
    """
    write(_json(schema()), out)
