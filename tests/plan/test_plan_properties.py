"""Plans tried out: from any pipeline to any other, in any order that the plan allows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model import Broker, Input, Job, Output, Pipeline, Site, Stream, Transport, Window
from millrace.model.quantity import Duration
from millrace.model.status import Observed
from millrace.model.stream import Format
from millrace.plan import plan
from millrace.plan.fuse import as_queries
from millrace.wire import plan_document
from tests.plan.simulator import JobSpec, Lost, Simulator, Worlds

SITES = ("s0", "s1", "s2")
STREAMS = tuple(f"t{number}" for number in range(7))
JOBS = ("a", "b", "c", "d", "e", "f")


@st.composite
def small_worlds(draw: Callable[[Any], Any], like: Pipeline | None = None) -> Pipeline:
    """Return pipelines over few names, so that two of them have much in common."""
    sites = {name: Site(name=name, broker=Broker()) for name in SITES}
    order = draw(st.permutations(STREAMS)) if like is None or draw(st.booleans()) else STREAMS
    jobs: dict[str, Job] = {}
    for name in JOBS:
        old = like.jobs.get(name) if like is not None else None
        if old is not None and draw(st.integers(0, 2)) > 0 and _fits(old, order):
            jobs[name] = old
        elif draw(st.booleans()):
            jobs[name] = draw(small_job(name, list(order)))
    used = {stream for job in jobs.values() for stream in (*job.reads, *job.writes)}
    streams = {}
    for name in STREAMS:
        if name not in used:
            continue
        same = like.streams.get(name) if like is not None and draw(st.integers(0, 3)) > 0 else None
        streams[name] = same or Stream(
            name=name,
            site=draw(st.sampled_from(SITES)),
            transport=Transport.KAFKA,
            partitions=draw(st.integers(1, 3)),
            format=draw(st.sampled_from([Format.JSON, Format.JSON, Format.CSV])),
            retention=draw(st.sampled_from([None, Duration(10**12)])),
        )
    return Pipeline("p", sites=sites, streams=streams, jobs=jobs)


def _fits(job: Job, order: Any) -> bool:
    rank = {name: index for index, name in enumerate(order)}
    return all(rank[a] < rank[b] for a in job.reads for b in job.writes)


@st.composite
def small_job(draw: Callable[[Any], Any], name: str, order: list[str]) -> Job:
    cut = draw(st.integers(1, len(order) - 1))
    reads = draw(st.lists(st.sampled_from(order[:cut]), min_size=1, max_size=2, unique=True))
    writes = draw(st.lists(st.sampled_from(order[cut:]), max_size=2, unique=True))
    window = Window(of=Duration(10**9)) if draw(st.booleans()) else None
    return Job(
        name=name,
        site=draw(st.sampled_from(SITES)),
        sql=draw(st.sampled_from(["x", "y"])),
        window=window,
        inputs=tuple(Input(stream=s) for s in reads),
        outputs=tuple(Output(stream=s) for s in writes),
    )


@st.composite
def pairs(draw: Callable[[Any], Any]) -> tuple[Pipeline, Pipeline]:
    old = draw(small_worlds())
    return old, draw(small_worlds(like=old))


def worlds(old: Pipeline, new: Pipeline) -> Worlds:
    """Return two pipelines as the simulator knows them: streams and who reads and writes them.

    Jobs that are one query are one job there, and streams inside of it are nowhere.
    """
    old, new = as_queries(old), as_queries(new)

    def specs(pipeline: Pipeline) -> dict[str, JobSpec]:
        def sid(name: str) -> tuple[str, str]:
            return name, pipeline.streams[name].site or ""

        def rejects(job: Job) -> list[str]:
            named = [pipeline.streams[name].dead_letters for name in job.reads]
            return sorted({name for name in named if name is not None})

        return {
            job.name: JobSpec(
                tuple(map(sid, job.reads)),
                tuple(map(sid, job.writes)),
                tuple(map(sid, rejects(job))),
                f"{job.site} {job.sql} {job.window} {[(m.name, m.sql) for m in job.members]}",
            )
            for job in pipeline.jobs.values()
        }

    def sids(pipeline: Pipeline) -> frozenset[tuple[str, str]]:
        return frozenset((stream.name, stream.site or "") for stream in pipeline.streams.values())

    def brokers(pipeline: Pipeline, *, managed: bool) -> frozenset[str]:
        return frozenset(
            site.name
            for site in pipeline.sites.values()
            if site.broker is not None and site.broker.managed is managed
        )

    return Worlds(
        sids(old),
        sids(new),
        specs(old),
        specs(new),
        brokers(old, managed=True),
        brokers(new, managed=True),
        brokers(old, managed=False) | brokers(new, managed=False),
    )


def try_out(old: Pipeline, new: Pipeline, seed: int, orders: int = 3) -> None:
    steps = plan_document(plan(new, Observed(old), {}))["steps"]
    for number in range(orders):
        Simulator(worlds(old, new), random.Random(seed + number)).apply(steps)


def seeded_world(chance: random.Random, like: Pipeline | None = None) -> Pipeline:
    """Return the same kind of pipelines without hypothesis: by the thousand, but not shrunk."""
    order = list(STREAMS)
    if like is None or chance.random() < 0.5:
        chance.shuffle(order)
    jobs: dict[str, Job] = {}
    for name in JOBS:
        old = like.jobs.get(name) if like is not None else None
        if old is not None and chance.random() < 0.6 and _fits(old, order):
            jobs[name] = old
            if chance.random() < 0.2:  # only its place, or only its code
                jobs[name] = replace(old, site=chance.choice(SITES), sql=chance.choice("xy"))
        elif chance.random() < 0.5:
            cut = chance.randint(1, len(order) - 1)
            reads = chance.sample(order[:cut], min(cut, chance.randint(1, 2)))
            writes = chance.sample(order[cut:], min(len(order) - cut, chance.randint(0, 2)))
            jobs[name] = Job(
                name=name,
                site=chance.choice(SITES),
                sql=chance.choice("xy"),
                inputs=tuple(Input(stream=stream) for stream in reads),
                outputs=tuple(Output(stream=stream) for stream in writes),
            )
    streams = {}
    for name in dict.fromkeys(s for job in jobs.values() for s in (*job.reads, *job.writes)):
        same = like.streams.get(name) if like is not None and chance.random() < 0.7 else None
        streams[name] = same or Stream(
            name=name,
            site=chance.choice(SITES),
            transport=Transport.KAFKA,
            partitions=chance.randint(1, 3),
            dead_letters=chance.choice([None, None, "bad"]),
            transient=chance.random() < 0.4,
        )
    if any(stream.dead_letters for stream in streams.values()):
        bad = like.streams.get("bad") if like is not None and chance.random() < 0.5 else None
        site = chance.choice(SITES)
        streams["bad"] = bad or Stream(name="bad", site=site, transport=Transport.KAFKA)
        if chance.random() < 0.5:  # somebody reads what was rejected, and puts it back
            back = (Output(stream=order[0]),) if order[0] in streams else ()
            jobs["again"] = Job(
                name="again", site=site, sql="x", inputs=(Input(stream="bad"),), outputs=back
            )
    used = {stream.site for stream in streams.values()} | {job.site for job in jobs.values()}
    sites = {name: Site(name=name, broker=Broker()) for name in SITES if name in used}
    return Pipeline("p", sites=sites, streams=streams, jobs=jobs)


@pytest.mark.parametrize("part", range(4))
def test_thousands_of_seeded_pairs_lose_nothing(part: int) -> None:
    for seed in range(part * 1000, (part + 1) * 1000):
        chance = random.Random(seed)
        old = seeded_world(chance)
        new = seeded_world(chance, like=old)
        try:
            try_out(old, new, seed, orders=2)
        except Lost as error:
            pytest.fail(f"seed {seed}: {error}")


@settings(max_examples=300, deadline=None)
@given(pairs(), st.integers(0, 2**32))
def test_any_allowed_order_gives_the_wanted_world_and_loses_nothing(
    pair: tuple[Pipeline, Pipeline], seed: int
) -> None:
    try_out(*pair, seed)


@settings(max_examples=100, deadline=None)
@given(small_worlds())
def test_a_plan_to_the_same_is_empty(pipeline: Pipeline) -> None:
    found = plan(pipeline, Observed(pipeline), {})
    assert found.empty
    assert found.untouched == len(pipeline.jobs)


@settings(max_examples=100, deadline=None)
@given(pairs(), st.sets(st.sampled_from(JOBS)))
def test_jobs_that_are_down_break_no_plan(pair: tuple[Pipeline, Pipeline], down: set[str]) -> None:
    found = plan(pair[1], Observed(pair[0], frozenset(down)), {})
    stopped = {step.name for step in found.steps if step.action == "stop"}
    assert not stopped & down


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_steps_are_listed_after_what_they_need_and_ids_are_unique(
    pair: tuple[Pipeline, Pipeline],
) -> None:
    steps = plan(pair[1], Observed(pair[0]), {}).steps
    seen: set[str] = set()
    for step in steps:
        assert set(step.after) <= seen
        assert step.id not in seen
        seen.add(step.id)


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_jobs_that_are_equal_and_whose_streams_are_equal_are_untouched(
    pair: tuple[Pipeline, Pipeline],
) -> None:
    old, new = pair
    touched = {step.name for step in plan(new, Observed(old), {}).steps if step.kind == "job"}
    for name, job in new.jobs.items():
        same = old.jobs.get(name) == job and all(
            old.streams.get(stream) == new.streams[stream] for stream in (*job.reads, *job.writes)
        )
        if same:
            assert name not in touched


def chain(*, middle: bool) -> Pipeline:
    """Return a -> (b ->) c over one site."""
    sites = {"s0": Site(name="s0", broker=Broker())}
    hops = [("a", "t0", "t1"), ("c", "t1", "t3")]
    if middle:
        hops = [("a", "t0", "t2"), ("b", "t2", "t1"), ("c", "t1", "t3")]
    jobs = {
        name: Job(
            name=name,
            site="s0",
            sql="x",
            inputs=(Input(stream=source),),
            outputs=(Output(stream=sink),),
        )
        for name, source, sink in hops
    }
    streams = {
        name: Stream(name=name, site="s0", transport=Transport.KAFKA)
        for hop in hops
        for name in hop[1:]
    }
    return Pipeline("p", sites=sites, streams=streams, jobs=jobs)


@pytest.mark.parametrize("broken", ["after", "drains"])
def test_the_simulator_finds_what_a_worse_plan_loses(broken: str) -> None:
    """Take the order, or the drains, out of a good plan: some order must lose a record."""
    old, new = chain(middle=True), chain(middle=False)
    steps = plan_document(plan(new, Observed(old), {}))["steps"]
    worse = [{**step, broken: []} for step in steps]

    def loses(seed: int) -> bool:
        try:
            Simulator(worlds(old, new), random.Random(seed)).apply(worse)
        except Lost:
            return True
        return False

    assert any(loses(seed) for seed in range(50))
    try_out(old, new, seed=0, orders=50)
