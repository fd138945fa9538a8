"""Which jobs become one query."""

from __future__ import annotations

import random
import re

import pytest

from millrace.model.graph import in_order
from millrace.plan.fuse import Fusion, as_queries, fusion
from millrace.spec import load_text

HEAD = "pipeline: p\nsites: {here: {broker: kafka}, there: {broker: kafka}}\n"


def fused(streams: str, jobs: str) -> Fusion:
    text = f"{HEAD}defaults: {{jobs: {{site: here}}}}\nstreams: {{{streams}}}\njobs: {{{jobs}}}\n"
    return fusion(load_text(text, "p").required())


def sql(name: str, source: str, sink: str, more: str = "") -> str:
    return f'{name}: {{from: [{source}], to: [{sink}], sql: "SELECT 1 AS one"{more}}}'


CHAIN = "raw: {site: here}, one: {transient: true}, two: {transient: true}, out: {}"


def test_a_chain_is_one_query() -> None:
    found = fused(
        CHAIN, ", ".join([sql("c", "two", "out"), sql("a", "raw", "one"), sql("b", "one", "two")])
    )
    assert found == Fusion((("a", "b", "c"),), frozenset({"one", "two"}), {})
    assert found.group("b") == ("a", "b", "c")


def test_nothing_is_fused_unasked() -> None:
    found = fused(
        "raw: {site: here}, one: {}, out: {}", f"{sql('a', 'raw', 'one')}, {sql('b', 'one', 'out')}"
    )
    assert found == Fusion()
    assert found.group("b") == ("b",)


def test_a_tree_is_one_query() -> None:
    found = fused(
        "raw: {site: here}, one: {transient: true}, left: {}, right: {}",
        ", ".join([sql("a", "raw", "one"), sql("b", "one", "left"), sql("c", "one", "right")]),
    )
    assert found.groups == (("a", "b", "c"),)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (", fuse: never", "", "a says fuse: never"),
        ("", ", fuse: never", "b says fuse: never"),
        ("", ", site: there", "a and b differ in site"),
        ("", ", isolation: dedicated", "b has a driver of its own"),
        (", checkpoint: 10 s", "", "a and b differ in checkpoint"),
        (", mode: micro-batch", ", mode: real-time", "a and b differ in mode"),
        (
            ", window: {of: 1 s, by: at}",
            "",
            "a keeps state, and what comes after it is a query of its own",
        ),
    ],
)
def test_what_keeps_jobs_apart_is_named(first: str, second: str, reason: str) -> None:
    found = fused(
        "raw: {site: here, schema: {at: timestamp}}, one: {transient: true, site: here}, out: {}",
        f"{sql('a', 'raw', 'one', first)}, {sql('b', 'one', 'out', second)}",
    )
    assert found == Fusion(stored={"one": reason})


def test_a_reader_that_stays_out_keeps_the_stream_for_all() -> None:
    found = fused(
        "raw: {site: here}, one: {transient: true}, left: {}, right: {}",
        ", ".join(
            [
                sql("a", "raw", "one"),
                sql("b", "one", "left"),
                sql("c", "one", "right", ", fuse: never"),
            ]
        ),
    )
    assert found == Fusion(stored={"one": "c says fuse: never"})


def test_streams_at_the_border_are_stored() -> None:
    found = fused(
        "raw: {site: here, transient: true}, out: {transient: true}", sql("a", "raw", "out")
    )
    assert found.stored == {"raw": "no job here writes it", "out": "no job here reads it"}


def test_a_way_around_keeps_jobs_apart() -> None:
    found = fused(
        "raw: {site: here}, short: {transient: true}, x: {}, y: {}, out: {}",
        ", ".join([sql("a", "raw", "short, x"), sql("b", "x", "y"), sql("c", "short, y", "out")]),
    )
    assert found.groups == ()
    assert "through others" in found.stored["short"]


RAW = "raw: {site: here, schema: {at: timestamp}}, other: {site: here}"


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([sql("a", "raw", "t"), sql("b", "raw, t", "x")], "a and b both read raw"),
        ([sql("a", "raw", "t, x"), sql("b", "t", "x")], "a and b both write x"),
        (
            [sql("a", "raw, other", "t"), sql("b", "t", "x"), sql("c", "t", "y")],
            "a query with several outputs has one input, not raw, other",
        ),
        (
            [
                "a: {from: raw, to: t, map: 'm:f'}",
                "b: {from: t, to: x, window: {of: 1 s, by: at}, python: 'm:g'}",
            ],
            "b keeps state, and dead letters of a would be lost in it",
        ),
        (
            ["a: {from: raw, to: [t, x], map: 'm:f'}", sql("b", "t", "y")],
            "a is a map job, and its query would be no chain",
        ),
        (
            [
                sql("a", "raw", "t, x"),
                "b: {from: t, to: y, window: {of: 1 s, by: at}, python: 'm:f'}",
            ],
            "b keeps state, and its query would be no chain",
        ),
    ],
)
def test_a_query_is_a_chain_or_a_tree_over_one_input(jobs: list[str], reason: str) -> None:
    known = {"raw": "{site: here, schema: {at: timestamp}}", "other": "{site: here}"}
    known |= {"t": "{transient: true}", "x": "{}", "y": "{}"}
    used = set(re.findall(r"\w+", " ".join(jobs)))
    streams = ", ".join(f"{name}: {text}" for name, text in known.items() if name in used)
    found = fused(streams, ", ".join(jobs))
    assert found == Fusion(stored={"t": reason})


def test_a_chain_may_have_maps_and_several_inputs() -> None:
    found = fused(
        f"{RAW}, t: {{transient: true}}, u: {{transient: true}}, x: {{}}",
        ", ".join(
            [
                sql("a", "raw, other", "t"),
                "b: {from: t, to: u, map: 'm:f'}",
                "c: {from: u, to: x, map: 'm:g'}",
            ]
        ),
    )
    assert found.groups == (("a", "b", "c"),)


def test_queries_are_jobs_to_the_planner() -> None:
    text = f"{HEAD}defaults: {{jobs: {{site: here}}}}\nstreams: {{{CHAIN}}}\njobs: {{" + ", ".join(
        [sql("c", "two", "out"), sql("a", "raw", "one"), sql("b", "one", "two")]
    )
    pipeline = load_text(text + "}", "p").required()
    whole = as_queries(pipeline)
    assert list(whole.streams) == ["raw", "out"]
    (query,) = whole.jobs.values()
    assert (query.name, query.reads, query.writes) == ("a", ("raw",), ("out",))
    assert query.members == tuple(pipeline.jobs[name] for name in "abc")


def test_random_pipelines_keep_the_rules() -> None:
    chosen = random.Random(4)
    groups = 0
    for _ in range(300):
        streams, jobs = ["s0: {site: here}"], []
        for number in range(chosen.randrange(2, 9)):
            sources = {f"s{chosen.randrange(number + 1)}" for _ in range(chosen.randrange(1, 3))}
            transient = chosen.choice(["true", "true", "false"])
            streams.append(f"s{number + 1}: {{transient: {transient}, site: here}}")
            never = chosen.choice(["", "", "", ", fuse: never"])
            jobs.append(sql(f"j{number}", ", ".join(sorted(sources)), f"s{number + 1}", never))
        text = f"{HEAD}defaults: {{jobs: {{site: here}}}}\nstreams: {{{', '.join(streams)}}}\n"
        pipeline = load_text(f"{text}jobs: {{{', '.join(jobs)}}}\n", "p").required()
        found = fusion(pipeline)
        transient_ones = {name for name, stream in pipeline.streams.items() if stream.transient}
        assert found.inside | set(found.stored) == transient_ones
        assert not found.inside & set(found.stored)
        order = [job.name for job in in_order(pipeline)]
        for names in found.groups:
            assert list(names) == sorted(names, key=order.index)
        for name in found.inside:
            around = [*pipeline.writers()[name], *pipeline.readers()[name]]
            assert len({found.group(job.name) for job in around}) == 1
        groups += len(found.groups)
    assert groups > 100
