"""`millrace describe`, and the part of `validate` that asks an engine."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from millrace.cli.options import FileArgument, HomeOption, OutputOption, ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, show, show_json
from millrace.errors import OperationFailed, nearest
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import fusion


def describe(
    file: FileArgument,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job.")],
    profile: ProfileOption = None,
    output: OutputOption = Output.TEXT,
    home: HomeOption = None,
) -> None:
    """Tell how a job would run: its mode and why, its operators, what it writes.

    Spark is started for the answer; nothing of the pipeline runs.

    Example: [bold]millrace describe pipeline.yaml clean[/bold]
    """
    pipeline = required(loaded_file(file, profile), output)
    if job not in pipeline.jobs:
        near = nearest(job, pipeline.jobs)
        known = ", ".join(list(pipeline.jobs)[:10])
        fail(f"there is no job {job!r} in {file}",
             f"did you mean {near!r}?" if near else f"its jobs are {known}")  # fmt: skip
    facts = asked(pipeline, file, home)[job]
    found = fusion(pipeline)
    stored = {name: found.stored[name] for name in _streams(pipeline.jobs[job], found.stored)}
    query = found.group(job)
    if output is Output.JSON:
        document = facts_document(pipeline.jobs[job], facts)
        show_json({"job": job, **document, "query": list(query), "stored": stored})
        return
    show(_text(pipeline.jobs[job], facts))
    if len(query) > 1:
        show(Text(f"one query: {', '.join(query)}\n"))
    for name, why in stored.items():
        show(Text(f"{name} is stored though transient: {why}\n"))


def _streams(job: Job, among: Container[str]) -> list[str]:
    return [name for name in dict.fromkeys((*job.reads, *job.writes)) if name in among]


def asked(pipeline: Pipeline, file: str, home: Path | None) -> Mapping[str, JobFacts]:
    """Ask the engines about all jobs, or end with what stands against it."""
    code = Path(file).absolute().parent if file != "-" else Path.cwd()
    try:
        from millrace.agent.examine import examined  # noqa: PLC0415 - Spark is an extra

        return examined(pipeline, Folders.of(home), code)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed", "pip install 'millrace[spark,kafka,measure]'")
    raise AssertionError  # fail never returns


def facts_document(job: Job, facts: JobFacts) -> dict[str, Any]:
    """Return what an engine told of a job, for programs."""
    return {
        "kind": job.kind,
        "from": list(job.reads),
        "to": list(job.writes),
        "mode": facts.mode.value if facts.mode is not None else None,
        "windows": job.windows or None,
        "reasons": list(facts.reasons),
        "operators": list(facts.operators),
        "stateful": facts.stateful,
        "schemas": {name: dict(schema) for name, schema in facts.schemas.items()},
    }


def _text(job: Job, facts: JobFacts) -> Text:
    lines = [
        f"job {job.name}: {job.kind}, from {', '.join(job.reads)} to {', '.join(job.writes)}",
        f"mode: {facts.mode}",
        *(f"  because {reason}" for reason in facts.reasons),
        *([f"windows: {job.windows}"] if job.windows else []),
        f"holds state: {'yes' if facts.stateful else 'no'}",
        f"operators: {', '.join(facts.operators)}",
    ]
    for stream, schema in facts.schemas.items():
        columns = ", ".join(f"{name} {kind}" for name, kind in schema.items())
        lines.append(f"writes {stream}: {columns or 'as its function returns'}")
    return Text("\n".join(lines) + "\n")


def modes_text(facts: Mapping[str, JobFacts]) -> Text:
    """Return the mode of each job with the reasons, one a line."""
    width = max((len(name) for name in facts), default=0)
    return Text(
        "".join(
            f"  {name:<{width}}  {item.mode}: {'; '.join(item.reasons)}\n"
            for name, item in facts.items()
        )
    )
