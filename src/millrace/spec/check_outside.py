"""What must hold of sources and sinks beside brokers, and of jobs that go by the clock."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.errors import Problems
from millrace.model.job import Job
from millrace.model.outside import Read, Write
from millrace.spec.expand import Item

#: Kinds of code that can be run by the clock.
TIMED = ("sql", "python", "map")
Wrong = tuple[str, str]


def check_outside(job: Job, item: Item, problems: Problems) -> None:
    """Tell what is wrong with a job's source, sink or clock."""
    found: list[tuple[str, Iterator[Wrong]]] = []
    if job.read is not None:
        found.append(("read", _read(job, job.read)))
    if job.write is not None:
        found.append(("write", _write(job, job.write)))
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
        if read.database is None:
            yield "asks which database?", "add `database: sqlite:PATH` or postgresql://..."
    if read.speed <= 0:
        yield "has no speed", "write `speed: 1` or more"


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


def _every(job: Job) -> Iterator[Wrong]:
    if job.kind not in TIMED:
        yield f"is not for `{job.kind}`", f"use it with {', '.join(TIMED)}"
    if job.inputs:
        yield "is for jobs without inputs", "write `interval:` for the length of batches"
    if not job.outputs:
        yield "makes records, but for which stream?", "add `to: STREAM`"
