"""`millrace validate` and `millrace explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from millrace.cli.describe import asked, facts_document, modes_text
from millrace.cli.options import FormatOption, OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, show, show_json, show_problems
from millrace.cli.views.values import balance_text, origin_document, origin_text
from millrace.errors import nearest
from millrace.model.status import JobFacts
from millrace.spec import Loaded
from millrace.spec.convert import Origin
from millrace.wire import diagnostic_document


def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Pipeline files; - is stdin.")
    ],
    profile: ProfileOption = None,
    output: OutputOption = Output.TEXT,
    file_format: FormatOption = None,
    engine: Annotated[
        bool,
        typer.Option("--engine", help="Start Spark and ask it, too: modes, schemas, code."),
    ] = False,
) -> None:
    """Check pipeline files: every problem at once, with its place and what to do.

    Without --engine no Spark is needed, and the mode of a job is decided at its start.

    Example: [bold]millrace validate pipeline.yaml --profile laptop[/bold]
    """
    results = [(file, loaded_file(file, profile, file_format)) for file in files]
    facts = {
        file: asked(loaded.pipeline, file, None)
        for file, loaded in results
        if engine and loaded.pipeline is not None
    }
    if output is Output.JSON:
        documents = [_document(file, loaded) for file, loaded in results]
        for document in documents:
            document.update(_modes(facts.get(document["file"]), results))
        show_json(documents[0] if len(documents) == 1 else documents)
    else:
        for file, loaded in results:
            _show(file, loaded)
            if file in facts:
                show(modes_text(facts[file]))
    if any(loaded.pipeline is None for _, loaded in results):
        raise typer.Exit(1)


def _modes(
    facts: Mapping[str, JobFacts] | None, results: list[tuple[str, Loaded]]
) -> dict[str, Any]:
    if facts is None:
        return {}
    pipelines = [item.pipeline for _, item in results if item.pipeline is not None]
    jobs = {name: job for pipeline in pipelines for name, job in pipeline.jobs.items()}
    return {"engine": {name: facts_document(jobs[name], item) for name, item in facts.items()}}


def _show(file: str, loaded: Loaded) -> None:
    pipeline = loaded.pipeline
    if loaded.diagnostics:
        show_problems(loaded.diagnostics, [loaded], Output.TEXT)
    if pipeline is None:
        return
    counts = ", ".join(
        f"{len(things)} {word if len(things) != 1 else word[:-1]}"
        for word, things in (
            ("jobs", pipeline.jobs),
            ("streams", pipeline.streams),
            ("sites", pipeline.sites),
            ("pilots", pipeline.pilots),
        )
        if things
    )
    show(f"{file}: {pipeline.name} is valid ({counts or 'empty'}; {loaded.format} format)\n")
    show(balance_text(loaded.balance))


def _document(file: str, loaded: Loaded) -> dict[str, Any]:
    document: dict[str, Any] = {
        "file": file,
        "valid": loaded.pipeline is not None,
        "left_out": loaded.left_out,
        "diagnostics": [diagnostic_document(item) for item in loaded.diagnostics],
    }
    if loaded.pipeline is not None:
        balance = loaded.balance
        document |= {
            "pipeline": loaded.pipeline.name,
            "format": str(loaded.format),
            "jobs": len(loaded.pipeline.jobs),
            "firings": dict(balance.firings),
            "buffers": dict(balance.buffers),
        }
    return document


def explain(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Such as jobs.clean.checkpoint, or streams.raw.")
    ],
    file: Annotated[str, typer.Option("--file", "-f", help="The pipeline file.")] = "pipeline.yaml",
    profile: ProfileOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Tell where a value came from: the thing itself, its group, the defaults, or Millrace.

    Example: [bold]millrace explain streams.raw.partitions -f pipeline.yaml[/bold]
    """
    loaded = loaded_file(file, profile, trace=True)
    if not loaded.origins:
        required(loaded, output)
    wanted = path.strip(".")
    found = {
        key: origin
        for key, origin in loaded.origins.items()
        if key == wanted or key.startswith((wanted + ".", wanted + "["))
    }
    found = {key: item for key, item in found.items() if not _of_another(key, wanted, loaded)}
    if not found:
        known = set(loaded.origins) | {key.rsplit(".", 1)[0] for key in loaded.origins}
        near = nearest(wanted, known)
        hint = f"did you mean {near}?" if near else "paths look like jobs.NAME.field"
        fail(f"there is no value {wanted!r} in {file}", hint)
    if wanted not in loaded.origins:  # a whole thing: what somebody wrote, not every default
        found = {key: origin for key, origin in found.items() if origin.node is not None} or found
    found = {key: _filled_in(key, origin, loaded) for key, origin in found.items()}
    if output is Output.JSON:
        show_json([origin_document(key, origin) for key, origin in found.items()])
        return
    for key, origin in found.items():
        show(origin_text(key, origin))


def _of_another(path: str, wanted: str, loaded: Loaded) -> bool:
    """Whether a path belongs to a thing whose name only begins like the one asked for."""
    section, _, name = wanted.partition(".")
    names = getattr(loaded.pipeline, section, {})
    longer = (other for other in names if other.startswith(name + "."))
    return name in names and any(path.startswith(f"{section}.{other}.") for other in longer)


def _filled_in(path: str, origin: Origin, loaded: Loaded) -> Origin:
    """What the file leaves to be understood: the only site, a stream's place and transport."""
    section, _, rest = path.partition(".")
    name, _, key = rest.rpartition(".")
    things = getattr(loaded.pipeline, section, {})
    if origin.node is not None or origin.value is not None or name not in things:
        return origin
    value = getattr(things[name], key, None) if key in ("site", "transport") else None
    return origin if value is None else Origin(value, None, "filled in from what is around it")
