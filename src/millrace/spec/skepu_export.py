"""A pipeline as a workflow file of SkePU-Streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from millrace.errors import Diagnostic, ExportError
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Site
from millrace.model.stream import Stream
from millrace.model.text import written
from millrace.spec.foreign import unsaid
from millrace.spec.skepu import ENCRYPTIONS, HOST, MODELS

_SITE: Final = {"host": None, "engine": "process", "cores": None, "toolchain": None}
_STREAM: Final = {
    "group": None,
    "site": None,
    "transport": "zmq",
    "format": "raw",
    "port": None,
    "encryption": None,
    "buffer": None,
    "transfer": None,
}
_JOB: Final[dict[str, Any]] = {
    "group": None,
    "site": None,
    "from": None,
    "to": None,
    "process": {},
    "pin": None,
    "variants": None,
    "buffers": None,
}


def skepu_of(pipeline: Pipeline) -> str:
    """Return the workflow file; ExportError says what it can't hold."""
    told = _unsaid(pipeline)
    if told:
        raise ExportError(told)
    lines = ["{", "resources {", "  hosts: ["]
    for site in pipeline.sites.values():
        lines += _block("    ", "", _host(site))
    lines += ["  ]", "}", "application {", f"  id: {_text(pipeline.name)}", "  workflow: ["]
    groups = [stream.group for stream in pipeline.streams.values()]
    groups += [job.group for job in pipeline.jobs.values()]
    for group in dict.fromkeys(str(name) for name in groups):
        lines += ["    pipeline {", f"      id: {_text(group)}", "      streams: ["]
        for stream in pipeline.streams.values():
            if stream.group == group:
                lines += _block("        ", "", _stream(stream))
        lines += ["      ]", "      tasks: ["]
        for job in pipeline.jobs.values():
            if job.group == group:
                lines += _block("        ", "", _task(job))
        lines += ["      ]", "    }"]
    return "\n".join([*lines, "  ]", "}", "}", ""])


def _unsaid(pipeline: Pipeline) -> list[Diagnostic]:
    told = [
        Diagnostic("not-sayable", f"SkePU-Streaming can't say the pilot {name!r}")
        for name in pipeline.pilots
    ]
    if pipeline.description:
        told.append(Diagnostic("not-sayable", "SkePU-Streaming can't say a description"))
    for kind, things, said in (
        ("site", pipeline.sites, _SITE),
        ("stream", pipeline.streams, _STREAM),
        ("job", pipeline.jobs, _JOB),
    ):
        for name, thing in things.items():
            told += unsaid(thing, f"{kind} {name!r}", said, "SkePU-Streaming")
    for kind, groups in (("stream", pipeline.streams), ("job", pipeline.jobs)):
        for name, item in groups.items():
            told += _needed(item, f"{kind} {name!r}")
    told += [
        _cannot(f"{kind} {name!r}", "references are words", "rename it", thing.at)
        for kind, things in (("site", pipeline.sites), ("stream", pipeline.streams))
        for name, thing in things.items()
        if not name.isidentifier()
    ]
    for name, site in pipeline.sites.items():
        if "engine" not in (fields := written(site)) or fields["engine"] != "process":
            told.append(
                _cannot(
                    f"site {name!r}",
                    "sites only run processes",
                    "give it `engine: process`",
                    site.at,
                )
            )
    return told


def _needed(thing: Stream | Job, what: str) -> list[Diagnostic]:
    """What the format has no word to leave out."""
    told = []
    if thing.group is None:
        told.append(
            _cannot(what, "everything belongs to a pipeline block", "give it a `group:`", thing.at)
        )
    if isinstance(thing, Stream):
        if thing.transport is None or thing.transport not in MODELS.values():
            told.append(_cannot(what, "streams are direct", "use `transport: zmq`", thing.at))
        if thing.format.value != "raw":
            told.append(_cannot(what, "formats can't be said", "use `format: raw`", thing.at))
        if thing.encryption.value not in ENCRYPTIONS.values():
            told.append(_cannot(what, "encryption is CurveZMQ or none", "use `curve`", thing.at))
        return told
    if thing.process is None:
        told.append(_cannot(what, "tasks are programs", "make it a `process`", thing.at))
    for port in (*thing.inputs, *thing.outputs):
        told += unsaid(port, f"a port of {what}", {"stream": None}, "SkePU-Streaming")
    for name, variant in (thing.variants or {}).items():
        if variant.kind is not None and not (
            variant.kind.isidentifier() and variant.kind.isascii()
        ):
            told.append(
                _cannot(f"variant {name!r} of {what}", "kinds are words", "rename it", thing.at)
            )
        told += unsaid(
            variant,
            f"variant {name!r} of {what}",
            dict.fromkeys(("kind", "backend", "build", "default")),
            "SkePU-Streaming",
        )
    return told


def _cannot(what: str, message: str, hint: str, at: Any) -> Diagnostic:
    return Diagnostic("not-sayable", f"{what}: in SkePU-Streaming {message}", at, hint=hint)


def _host(site: Site) -> dict[str, Any]:
    fields = written(site)
    host: dict[str, Any] = {"id": site.name}
    for key, path in HOST.items():
        value: Any = fields
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            host[key] = value
    if site.cores:
        host["executor_affinity"] = ",".join(str(core) for core in site.cores)
    return host


def _stream(stream: Stream) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in ENCRYPTIONS.items()}
    fields: dict[str, Any] = {
        "id": stream.name,
        "model": "TCP",
        "port": stream.port,
        "encryption": names[stream.encryption.value],
    }
    if stream.buffer is not None:
        fields["buffer_size"] = str(stream.buffer)
    fields["transfer"] = stream.transfer
    return {key: value for key, value in fields.items() if value is not None}


def _task(job: Job) -> dict[str, Any]:
    task: dict[str, Any] = {"id": job.name, "host": Reference(job.site or "")}
    if job.inputs:
        task["input_streams"] = [Reference(name) for name in job.reads]
    if job.outputs:
        task["output_streams"] = [Reference(name) for name in job.writes]
    if job.pin:
        task["cores"] = ",".join(str(core) for core in job.pin)
    if job.buffers is not None and job.buffers.input is not None:
        task["input_buffer_size"] = job.buffers.input.count
    if job.buffers is not None and job.buffers.output is not None:
        task["output_buffer_size"] = job.buffers.output.count
    if job.variants:
        task["variants"] = [_variant(name, variant) for name, variant in job.variants.items()]
    return task


class Reference(str):
    """A name that is written with a dollar sign."""

    __slots__ = ()


class Block(dict[str, Any]):
    """A map with a word before its brace."""

    word = ""


def _variant(name: str, variant: Any) -> Block:
    fields = written(variant)
    if not isinstance(fields, dict):  # only its short field was left
        fields = {"backend": fields}
    block = Block({"id": name, **{key: value for key, value in fields.items() if key != "kind"}})
    if isinstance(block.get("build"), str):
        block["build"] = {"type": block["build"]}
    block.word = fields.get("kind", "")
    return block


def _block(indent: str, word: str, fields: dict[str, Any]) -> Iterator[str]:
    yield f"{indent}{word + ' ' if word else ''}{{"
    for key, value in fields.items():
        yield from _entry(indent + "  ", key, value)
    yield f"{indent}}}"


def _entry(indent: str, key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        first, *rest = _block(indent, "", value)
        yield f"{indent}{key}: {first.strip()}"
        yield from rest
    elif isinstance(value, list) and value and isinstance(value[0], Block):
        yield f"{indent}{key}: ["
        for item in value:
            yield from _block(indent + "  ", item.word, item)
        yield f"{indent}]"
    else:
        yield f"{indent}{key}: {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Reference):
        return f"${value}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    return json.dumps(value)
