"""`millrace describe`, and the part of `validate` that asks an engine."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from millrace.cli.completing import described_names
from millrace.cli.connection import (
    CertificateOption,
    HomeHereOption,
    ServerOption,
    TokenFileOption,
    failures_told,
    settings_of,
)
from millrace.cli.describe_known import KINDS, Described, DescribedAs, describe_known
from millrace.cli.form import Form, show_data
from millrace.cli.options import ProfileOption
from millrace.cli.output import Output, fail, loaded_file, required, show
from millrace.client import Client
from millrace.errors import OperationFailed, nearest
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import fusion


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def describe(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|KIND",
            help="pipeline, job, stream, site or operation; or a pipeline file, - is stdin.",
            autocompletion=_kinds,
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="JOB|NAME",
            help="The job of the file; or what the coordinator knows, jobs as PIPELINE/JOB.",
            autocompletion=described_names,
        ),
    ],
    profile: ProfileOption = None,
    output: DescribedAs = Described.TEXT,
    server: ServerOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    home: HomeHereOption = None,
) -> None:
    """Tell all about a pipeline, job, stream, site or change that a coordinator knows.

    With a file instead of a kind: how a job would run, its mode and why, its operators, what it
    writes. Spark is started for that answer; nothing of the pipeline runs.

    Example: [bold]millrace describe job traffic/clean[/bold],
    [bold]millrace describe pipeline.yaml clean[/bold]
    """
    if what not in KINDS:
        _describe_file(what, name, profile, output, home)
        return
    with failures_told(), Client(settings_of(server, token_file, certificate, home)) as client:
        describe_known(client, what, name, output)


def _describe_file(
    file: str, job: str, profile: str | None, output: Described, home: Path | None
) -> None:
    problems = Output.JSON if output is Described.JSON else Output.TEXT
    pipeline = required(loaded_file(file, profile), problems)
    if job not in pipeline.jobs:
        near = nearest(job, pipeline.jobs)
        known = ", ".join(list(pipeline.jobs)[:10])
        fail(f"there is no job {job!r} in {file}",
             f"did you mean {near!r}?" if near else f"its jobs are {known}")  # fmt: skip
    facts = asked(pipeline, file, home)[job]
    found = fusion(pipeline)
    stored = {name: found.stored[name] for name in _streams(pipeline.jobs[job], found.stored)}
    query = found.group(job)
    if output is not Described.TEXT:
        document = facts_document(pipeline.jobs[job], facts)
        whole = {"job": job, **document, "query": list(query), "stored": stored}
        show_data(whole, Form(output.value))
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
