"""What must hold of sources and sinks beside brokers, and of jobs that go by the clock."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from millrace.errors import Problems
from millrace.model.job import Job
from millrace.model.outside import Holds, Read, Write
from millrace.model.pipeline import Pipeline
from millrace.model.quantity import Duration
from millrace.model.stream import Format, Promise, Stream
from millrace.spec.expand import Item

#: Kinds of code that can be run by the clock.
TIMED = ("sql", "python", "map")
Wrong = tuple[str, str]
#: Databases that can be asked, and what the beginning of an address looks like.
_DATABASES: Final = ("sqlite", "postgresql")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+)://|(sqlite|postgres(?:ql)?):", re.IGNORECASE)
#: Formats whose records have no columns of their own.
_PLAIN: Final = (Format.RAW, Format.TEXT)
_TIMES: Final = ("timestamp", "timestamp_ltz", "timestamp_ntz")


def check_outside(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    """Tell what is wrong with a job's source, sink or clock."""
    found: list[tuple[str, Iterator[Wrong]]] = []
    if job.read is not None:
        found.append(("read", _read(job, job.read)))
        found.append(("read", _target(job, job.read, pipeline)))
    if job.write is not None:
        found.append(("write", _write(job, job.write)))
        found.append(("write", _folder(job, job.write, pipeline)))
    if job.every is not None and job.kind in (*TIMED, "read", "write", "state", "aggregate"):
        found.append(("every", _every(job)))
    for key, all_wrong in found:
        for wrong, hint in all_wrong:
            problems.error(
                "outside", f"`{key}` of job {job.name!r} {wrong}", item.locate(key), hint=hint
            )


def _read(job: Job, read: Read) -> Iterator[Wrong]:
    given = [kind for kind in Read.KINDS if getattr(read, kind)]
    if len(given) != 1:
        yield f"says {' and '.join(given) or 'nothing'}", f"give one of {', '.join(Read.KINDS)}"
    if job.inputs:
        yield "makes the job a source, and it reads streams, too", "leave out `from`"
    if len(job.outputs) != 1:
        yield f"goes to {len(job.outputs)} streams", "write `to:` with one stream"
    if read.kind == "replay" and read.by is None:
        yield "goes by the records' own times, but which column is it?", "add `by: COLUMN`"
    if read.kind == "query":
        if read.by is None:
            yield "must know which rows are new", "add `by:` with a column that only grows"
        yield from _database(read.database)
    if read.speed <= 0:
        yield "has no speed", "write `speed: 1` or more"
    if found := _SCHEME.match(read.files or ""):
        scheme = (found[1] or found[2]).lower()
        database = scheme in (*_DATABASES, "postgres")
        hint = (
            "did you mean `{query: SELECT ..., by: COLUMN, database: ...}`?"
            if database
            else "give a path or a pattern of files on this machine"
        )
        yield f"takes {scheme}: for the name of a file", hint


def _database(address: str | None) -> Iterator[Wrong]:
    if address is None:
        yield "asks which database?", "add `database: sqlite:PATH` or postgresql://..."
        return
    kind = address.partition(":")[0]
    if kind not in _DATABASES:
        hint = "write sqlite:PATH or postgresql://USER@HOST/NAME"
        yield f"can't ask a database of the kind {kind!r}", hint
    elif kind == "postgresql" and "?" in address:
        yield (
            "has an address with parameters (after `?`), of which none is known",
            "leave them out: TLS is used, and checked, for all but this machine itself",
        )


def _target(job: Job, read: Read, pipeline: Pipeline) -> Iterator[Wrong]:
    """What the stream that it goes to must tell of the records."""
    stream = pipeline.streams.get(job.writes[0]) if len(job.writes) == 1 else None
    if stream is None or not read.kind:
        return
    rows = read.kind == "query" or (read.kind == "files" and read.holds is Holds.PARQUET)
    if not stream.schema and (rows or stream.format not in _PLAIN):
        what = "rows" if rows else f"lines of {stream.format}"
        yield (
            f"brings {what}, and the columns of stream {stream.name!r} are not known",
            f"write streams.{stream.name}.schema: {{column: type, ...}}",
        )
    elif read.kind == "replay" and read.by is not None:
        yield from _pace(read.by, stream)


def _pace(by: str, stream: Stream) -> Iterator[Wrong]:
    columns = {} if stream.format in _PLAIN else dict(stream.schema or {})
    kind = columns.get(by)
    if kind is None:
        known = ", ".join(columns) or f"none: it is {stream.format}"
        yield (
            f"goes by {by!r}, which is no column of stream {stream.name!r} (it has {known})",
            "name a column of the type timestamp",
        )
    elif kind.strip().lower() not in _TIMES:
        yield (
            f"goes by {by!r}, which is {kind} in stream {stream.name!r} and no time",
            f"write streams.{stream.name}.schema: {{{by}: timestamp, ...}}, or name another column",
        )


def _write(job: Job, write: Write) -> Iterator[Wrong]:
    given = [kind for kind in Write.KINDS if getattr(write, kind)]
    if len(given) != 1:
        yield f"says {' and '.join(given) or 'nothing'}", f"give one of {', '.join(Write.KINDS)}"
    if job.outputs:
        yield "makes the job a sink, and it writes streams, too", "leave out `to`"
    if len(job.follows) != 1 or len(job.inputs) != 1:
        yield "takes one stream", "write `from:` with one stream"
    if write.url is not None and not write.url.startswith(("http://", "https://")):
        yield f"can't send to {write.url!r}", "write an address that begins with https://"
    elif write.token is not None and _open(write.url):
        yield (
            "would send its token where all on the way can read it",
            "write an address that begins with https://, or leave out `token`",
        )
    if _SCHEME.match(write.files or ""):
        yield "takes an address for the name of a folder", "did you mean `write: {url: ...}`?"
    if write.timeout == Duration(0):
        yield "has no time", "write `timeout: 30 s`, or leave it out"
    if job.promise is Promise.NO_DUPLICATES:
        yield (
            "can't promise no duplicates: what is outside may get a batch twice, after a fault",
            "leave out `promise`, and let the receiver go by the number of the batch",
        )


def _open(url: str | None) -> bool:
    """Whether what is sent there can be read on the way; this machine itself is no way."""
    if url is None or not url.startswith("http://"):
        return False
    host = ""
    with suppress(ValueError):
        host = urlsplit(url).hostname or ""
        return not ipaddress.ip_address(host).is_loopback
    return host != "localhost"


def _folder(job: Job, write: Write, pipeline: Pipeline) -> Iterator[Wrong]:
    """Batches of several jobs may share a folder, but who reads it takes it for one table."""
    if write.files is None:
        return
    folder = posixpath.normpath(write.files)
    for other in pipeline.jobs.values():
        if other.name == job.name or other.write is None or other.write.files is None:
            continue
        same = posixpath.normpath(other.write.files) == folder
        if same and other.write.format is not write.format:
            yield (
                f"puts {write.format} into the folder into which job {other.name!r} puts "
                f"{other.write.format}",
                "give each its own folder",
            )


def _every(job: Job) -> Iterator[Wrong]:
    if job.kind not in TIMED:
        yield f"is not for `{job.kind}`", f"use it with {', '.join(TIMED)}"
    if job.inputs:
        yield "is for jobs without inputs", "write `interval:` for the length of batches"
    if not job.outputs:
        yield "makes records, but for which stream?", "add `to: STREAM`"
    if job.every == Duration(0):
        yield "is no time", "write how long to wait, such as `every: 1 s`"
