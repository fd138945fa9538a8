"""Random pipelines, small but of every kind, for hypothesis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from millrace.model import (
    Broker,
    Duration,
    Engine,
    EngineKind,
    Input,
    Job,
    Output,
    Pilot,
    Pipeline,
    Rate,
    Records,
    Secret,
    Site,
    Size,
    Stream,
    Transport,
)
from millrace.model.policy import Overload, OverloadPolicy
from millrace.model.shape import (
    Choice,
    Either,
    Flag,
    Kind,
    Measure,
    Number,
    Record,
    Several,
    Shape,
    Table,
    Text,
    Whole,
    record_of,
)
from millrace.spec.check_outside import TIMED

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,8}", fullmatch=True)
#: Anything that YAML can carry; texts that look like numbers, words and expressions among them.
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
    st.sampled_from(
        [
            "no",
            "010",
            "1e5",
            "0o7",
            "~",
            "true",
            ".5",
            "${{ x }}",
            "$${{",
            "a: b",
            "- x",
            "# c",
            " lead",
            "trail ",
            "a\nb",
            "\t",
            "é\u2028",
            "|",
            "'\"",
            "<<",
        ]
    ),
)
QUANTITIES: dict[type, st.SearchStrategy[Any]] = {
    Duration: st.builds(Duration, st.integers(1, 10**15)),
    Size: st.builds(Size, st.integers(1, 10**15)),
    Records: st.builds(Records, st.integers(1, 10**9)),
    Rate: st.builds(
        Rate,
        st.one_of(
            st.builds(Records, st.integers(1, 10**6)), st.builds(Size, st.integers(1, 10**9))
        ),
        st.builds(Duration, st.integers(1, 10**12)),
    ),
}
#: References are chosen where the pipeline is put together.
REFERENCES = frozenset({"sites", "pilots", "streams", "groups"})


def of_shape(shape: Shape) -> st.SearchStrategy[Any]:
    """Return values of a shape, references apart."""
    match shape:
        case Text():
            return texts
        case Whole(least, most):
            return st.integers(least or 0, most or 2**40)
        case Number():
            return st.floats(allow_nan=False, allow_infinity=False)
        case Flag():
            return st.booleans()
        case Choice(of) | Kind(of=of):
            return st.sampled_from(list[StrEnum](of))
        case Measure(of):
            return QUANTITIES[of]
        case Several(of):
            return st.lists(of_shape(of), max_size=2).map(tuple)
        case Table(of):
            secret = isinstance(of, Either)
            keys = st.sampled_from(["a", "b.c", "no", "1"]) if secret else names
            return st.dictionaries(keys, of_shape(of), max_size=2)
        case Record():
            return of_record(shape)
        case Either(options):
            return st.one_of([of_shape(option) for option in options])


def of_record(record: Record, without: frozenset[str] = frozenset()) -> st.SearchStrategy[Any]:
    """Return things of a record: required fields, and any few of the others."""
    if record.of is Secret:
        kinds = st.sampled_from(("env:", "file:"))
        return st.builds(Secret, secret=st.builds(str.__add__, kinds, texts))

    @st.composite
    def build(draw: Callable[[Any], Any]) -> Any:
        values = {}
        for field in record.fields:
            if field.attribute in without or field.refers:
                continue
            if field.required or draw(st.integers(0, 5)) == 0:
                values[field.attribute] = draw(of_shape(field.shape))
        return record.of(**values)

    return build()


KINDS: dict[str, st.SearchStrategy[Any]] = {
    key: of_shape(record_of(Job).field(key).shape)
    for key in ("sql", "python", "map", "state", "jar", "process")
}
#: Fields that must fit the rest of a job, so the strategy sets them itself or leaves them out.
JOB_FIXED = frozenset(
    {
        *("site", "engine", "group", "inputs", "outputs", "window", "mode", "pin", "every"),
        *("overload", *Job.KINDS),
    }
)
OVERLOADS = st.none() | st.builds(
    Overload, policy=st.sampled_from(OverloadPolicy), after=QUANTITIES[Duration]
)


HOSTS = ("10.0.0.7", "[fe80::1%eth0]", "me@head.example.org", "rbpi_2")


@st.composite
def pipelines(draw: Callable[[Any], Any]) -> Pipeline:
    """Return valid pipelines with every field filled now and then."""
    sites = {
        name: Site(
            name=name,
            engines=tuple(Engine(kind=kind) for kind in EngineKind),
            broker=Broker(options=draw(of_shape(record_of(Broker).field("options").shape))),
            host=draw(st.none() | st.sampled_from(HOSTS)),
        )
        for name in draw(st.lists(names, min_size=1, max_size=3, unique=True))
    }
    pilots = {}
    for name in draw(st.lists(names, max_size=2, unique=True)):
        pilot = draw(of_record(record_of(Pilot)))
        pilots[name] = dataclasses.replace(pilot, name=name)
    count = draw(st.integers(2, 5))
    stream_names = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    jobs = {}
    for index, name in enumerate(draw(st.lists(names, min_size=1, max_size=4, unique=True))):
        jobs[name] = draw(jobs_over(stream_names, list(sites), name, index))
    used = {stream for job in jobs.values() for stream in (*job.reads, *job.writes)}
    streams = {name: draw(streams_at(list(sites), name)) for name in stream_names if name in used}
    name = draw(st.text(min_size=1, max_size=9).filter(str.isprintable))
    return Pipeline(name, sites=sites, pilots=pilots, streams=streams, jobs=jobs)


@st.composite
def jobs_over(
    draw: Callable[[Any], Any], streams: list[str], sites: list[str], name: str, index: int
) -> Job:
    """Return a job that reads streams further up than those it writes, so that no circle comes."""
    cut = draw(st.integers(1, len(streams) - 1))
    inputs = draw(st.lists(st.sampled_from(streams[:cut]), min_size=1, max_size=2, unique=True))
    outputs = draw(st.lists(st.sampled_from(streams[cut:]), max_size=2, unique=True))
    job: Job = draw(of_record(record_of(Job), JOB_FIXED))
    kind = draw(st.sampled_from(sorted(KINDS)))
    every = None
    if kind in TIMED and outputs and draw(st.integers(0, 5)) == 0:
        inputs, every = [], draw(QUANTITIES[Duration])
    return dataclasses.replace(
        job,
        name=name,
        site=draw(st.sampled_from(sites)),
        inputs=tuple(Input(stream=stream) for stream in inputs),
        outputs=tuple(Output(stream=stream) for stream in outputs),
        pin=(index,) if draw(st.booleans()) else (),
        every=every,
        overload=draw(OVERLOADS),
        **{kind: draw(KINDS[kind])},
    )


@st.composite
def streams_at(draw: Callable[[Any], Any], sites: list[str], name: str) -> Stream:
    """Return a stream at a site's broker."""
    stream: Stream = draw(
        of_record(record_of(Stream), frozenset({"transport", "transient", "topic", "promise"}))
    )
    site = draw(st.sampled_from(sites))
    return dataclasses.replace(stream, name=name, site=site, transport=Transport.KAFKA)
