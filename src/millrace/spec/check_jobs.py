"""What must hold inside one job."""

from __future__ import annotations

from millrace.errors import Problems
from millrace.model.job import Emit, Input, Job, Mode, Order, Output
from millrace.model.pipeline import Pipeline
from millrace.model.policy import OverloadPolicy
from millrace.model.quantity import Duration, Records
from millrace.model.stream import Promise
from millrace.model.window import Late
from millrace.spec.check_inputs import check_inputs
from millrace.spec.check_outside import check_outside
from millrace.spec.expand import Item

#: Kinds that work on records of streams.
_READERS = ("sql", "python", "map", "aggregate", "state", "write", "bridge")


def check_job(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    """Tell what is wrong with a job by itself and at its site."""
    _kind(job, item, problems)
    _place(job, pipeline, item, problems)
    _mode(job, pipeline, item, problems)
    _window(job, item, problems)
    _inverse(job, item, problems)
    _columns(job, item, problems)
    _overload(job, item, problems)
    _late(job, pipeline, item, problems)
    _bridge(job, pipeline, item, problems)
    check_inputs(job, item, problems)
    check_outside(job, pipeline, item, problems)
    _ports(job, item, problems)


def _kind(job: Job, item: Item, problems: Problems) -> None:
    given = [kind for kind in Job.KINDS if getattr(job, kind) is not None]
    if len(given) > 1:
        problems.error(
            "two-kinds",
            f"job {job.name!r} says {' and '.join(given)}",
            item.locate(given[1]),
            expected="one of " + ", ".join(Job.KINDS),
            hint="keep one, make the others jobs",
        )
    elif not given:
        problems.error(
            "no-kind",
            f"job {job.name!r} does not say what it does",
            item.at,
            expected="one of " + ", ".join(Job.KINDS),
            hint='for a start: sql: "SELECT * FROM ..."',
        )
    elif given[0] in _READERS and not job.inputs and job.every is None:
        problems.error(
            "no-input",
            f"job {job.name!r} ({given[0]}) reads no stream",
            item.at,
            hint="add `from: STREAM`",
        )
    elif given[0] == "generator" and not job.outputs:
        problems.error(
            "no-output",
            f"the generator {job.name!r} writes no stream",
            item.at,
            hint="add `to: STREAM`",
        )
    elif not job.inputs and not job.outputs:
        problems.error(
            "no-streams",
            f"job {job.name!r} neither reads nor writes a stream",
            item.at,
            hint="add `from: STREAM` or `to: STREAM`",
        )


def _bridge(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    """A bridge copies one stream to another one that is written the same way."""
    if job.bridge is None:
        return
    streams = [pipeline.streams.get(name) for name in (*job.reads, *job.writes)]
    formats = [str(stream.format) for stream in streams if stream is not None]
    wrong = ""
    if job.bridge is False:
        wrong = "is a bridge that shall be none"
    elif (len(job.inputs), len(job.outputs)) != (1, 1):
        wrong = "is a bridge, and has not one stream to read and one to write"
    elif len(set(formats)) > 1:
        wrong = f"is a bridge, and its streams are written as {' and '.join(formats)}"
    if wrong:
        problems.error(
            "bad-bridge",
            f"job {job.name!r} {wrong}",
            item.locate("bridge"),
            hint="write {from: STREAM, to: STREAM, bridge: true}; to convert records use sql",
        )


def _place(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    site = pipeline.sites.get(job.site or "")
    if site is None and job.site is not None:
        return  # told where the name leads nowhere
    if site is None:
        problems.error(
            "no-site",
            f"where does job {job.name!r} run?",
            item.at,
            expected="one of " + ", ".join(pipeline.sites),
            hint="add `site:` to the job",
        )
        return
    needs = job.needs
    if needs is not None and site.engine(needs) is None:
        has = ", ".join(engine.kind for engine in site.engines)
        problems.error(
            "no-engine",
            f"job {job.name!r} needs {needs}, but site {site.name!r} has {has}",
            item.locate("site"),
            hint=f"add `engine: {needs}` to the site, or move the job",
        )


def _mode(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    """What real-time can't do is known without an engine only for these."""
    if job.mode is not Mode.REAL_TIME:
        return
    promises = {pipeline.streams[name].promise for name in job.writes if name in pipeline.streams}
    asked = {job.promise} if job.promise is not None else promises
    reasons = {
        f"`{job.kind}` runs Python code on records": job.kind in ("map", "state"),
        "`emit: final` waits for windows to close": job.window is not None
        and job.emit is Emit.FINAL,
        "`promise: no-duplicates` commits by batch": Promise.NO_DUPLICATES in asked,
        "`order: preserve` gathers batches": job.order is Order.PRESERVE,
    }
    for reason, holds in reasons.items():
        if holds:
            problems.error(
                "no-real-time",
                f"job {job.name!r} can't be real-time: {reason}",
                item.locate("mode"),
                hint="write `mode: auto` or `mode: micro-batch`",
            )


def _window(job: Job, item: Item, problems: Problems) -> None:
    window = job.window
    if window is None:
        if job.aggregate is not None:
            problems.error(
                "window",
                f"job {job.name!r} aggregates, but over which window?",
                item.locate("aggregate"),
                hint="add `window: {of: 10 s, by: COLUMN}`",
            )
        return
    at = item.locate("window")

    def tell(message: str, hint: str) -> None:
        problems.error("window", f"the window of job {job.name!r} {message}", at, hint=hint)

    if (window.of is None) == (window.gap is None):
        tell("needs either a length or a gap", "write `of: 10 s`, or `gap: 30 s` for a session")
    elif window.gap is not None and window.every is not None:
        tell("is a session and can't slide", "remove `every:`")
    elif window.every is not None and type(window.every) is not type(window.of):
        tell("has a length and a slide of two kinds", "give both as times or both as records")
    elif _zero(window.of) or _zero(window.every) or _zero(window.gap):
        tell("has no length", "give it more than 0")
    if window.kind == "capacity" and (window.by is not None or window.lateness is not None):
        tell("counts records, so it has no time", "remove `by:` and `lateness:`")
    elif window.kind == "wallclock" and window.lateness is not None:
        tell("goes by the wall clock, where nothing is late", "remove `lateness:` or add `by:`")


def _inverse(job: Job, item: Item, problems: Problems) -> None:
    window = job.window
    if window is None or window.inverse is None:
        return
    reasons = {
        "is for a function (`map`) that adds a record to a total": job.map is None,
        "is for sliding windows of time": window.shape != "sliding" or window.kind == "capacity",
        "can't know what `idle` lets in later": window.idle is not None,
        "needs `emit: final`": job.emit is not Emit.FINAL,
        "gives one stream": len(job.outputs) > 1,
    }
    for reason, holds in reasons.items():
        if holds:
            problems.error(
                "window",
                f"`inverse` in the window of job {job.name!r} {reason}",
                item.locate("window"),
                hint="leave it out: the function then gets all records of a window",
            )


def _overload(job: Job, item: Item, problems: Problems) -> None:
    policy = job.overload
    if policy is None or policy.policy is not OverloadPolicy.DROP_OLDEST or policy.after:
        return
    problems.error(
        "overload",
        f"job {job.name!r} drops its oldest records, but from what age on?",
        item.locate("overload"),
        hint="write `overload: {policy: drop-oldest, at: 1 min}`",
    )


def _columns(job: Job, item: Item, problems: Problems) -> None:
    """Each column of a window's result has a name of its own."""
    taken = ("start", "end", *(job.window.per if job.window is not None else ()))
    for name in job.aggregate or {}:
        if name in taken:
            problems.error(
                "window",
                f"job {job.name!r} calls an aggregate {name!r}, and each result has such a column",
                item.locate("aggregate", name),
                hint="give it another name",
            )


def _late(job: Job, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    if job.window is None or job.window.late is not Late.KEEP:
        return
    for name in job.follows:
        stream = pipeline.streams.get(name)
        if stream is not None and stream.dead_letters is None:
            problems.error(
                "window",
                f"job {job.name!r} keeps late records, but {name!r} has no stream for them",
                item.locate("window"),
                hint=f"write streams.{name}.dead_letters, or late: count",
            )


def _zero(length: Duration | Records | None) -> bool:
    return length in (Duration(0), Records(0))


def _ports(job: Job, item: Item, problems: Problems) -> None:
    sides: list[tuple[str, tuple[Input | Output, ...]]]
    sides = [("from", job.inputs), ("to", job.outputs)]
    for key, ports in sides:
        seen: set[str] = set()
        for index, port in enumerate(ports):
            name = port.alias or port.stream
            if name in seen:
                problems.error(
                    "port-twice",
                    f"job {job.name!r} has {name!r} twice in `{key}:`",
                    item.locate(key, index),
                    hint="remove one, or give it another name with `as:`",
                )
            seen.add(name)
    aliases = {port.alias or port.stream for port in job.inputs}
    if job.kind == "map" and len(aliases) == len(job.inputs) > len(set(job.reads)):
        problems.error(
            "stream-twice",
            f"job {job.name!r} reads a stream twice, and gives each of its records to one function",
            item.locate("from"),
            hint="read it once, and let the function return what both would",
        )
    constraints = job.generator.constraints if job.generator is not None else None
    for stream in constraints or {}:
        if stream not in job.writes:
            problems.error(
                "unknown-stream",
                f"generator {job.name!r} has a constraint for {stream!r}, which it does not write",
                item.locate("generator", "constraints", stream),
                hint="name it in `to:`, or remove the constraint",
            )
