from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from millrace.model import Impact, Pipeline
from millrace.model.job import Mode
from millrace.model.status import JobFacts, Observed
from millrace.model.step import Action, Kind, Plan, Step
from millrace.plan import plan
from millrace.plan.diff import differences
from millrace.plan.draft import GOES_ON
from millrace.spec import load, load_text
from tests.conftest import FIXTURES
from tests.plan.test_plan_properties import try_out

EXAMPLE = Path(__file__).parents[2] / "examples" / "road-traffic" / "pipeline.yaml"


def of(text: str) -> Pipeline:
    return load_text(text).required()


def between(old: Pipeline, new: Pipeline) -> Plan:
    return plan(new, Observed(old), {})


def step(found: Plan, name: str) -> Step:
    return next(item for item in found.steps if item.id == name)


def actions(found: Plan, kind: Kind) -> list[str]:
    return sorted(f"{item.action} {item.name}" for item in found.steps if item.kind is kind)


def before(found: Plan, one: str, other: str) -> bool:
    """Whether one step is always done before another."""
    after = {item.id: item.after for item in found.steps}
    work, seen = [other], set()
    while work:
        name = work.pop()
        if name == one:
            return True
        if name not in seen:
            seen.add(name)
            work += after[name]
    return False


def speck_pair() -> tuple[Pipeline, Pipeline]:
    return (
        load(FIXTURES / "speck-listing-1.1.yaml").required(),
        load(FIXTURES / "speck-listing-1.2.yaml").required(),
    )


def test_the_speck_pair_touches_only_what_must_change() -> None:
    found = between(*speck_pair())
    assert actions(found, Kind.JOB) == ["change C", "create C2", "delete B", "move D"]
    assert found.untouched == 1
    assert step(found, "change job C").impact is Impact.RESTART
    assert step(found, "change job C").reasons[0].text == "to: [T-D-merger] -> [T-C2-filter]"
    assert before(found, "create job C2", "change job C")
    assert before(found, "change job C", "move job D")
    assert step(found, "move job D").drains == ("T-D-merger",)
    assert actions(found, Kind.STREAM) == [
        "create T-C2-filter",
        "create T-D-merger",
        "create T-D-total",
        "delete T-2",
        "delete T-D-merger",
        "delete T-D-total",
    ]


def test_the_speck_pair_loses_nothing() -> None:
    try_out(*speck_pair(), seed=1, orders=100)


def test_back_from_the_new_listing_to_the_old() -> None:
    old, new = speck_pair()
    found = between(new, old)
    assert actions(found, Kind.JOB) == ["change C", "create B", "delete C2", "move D"]
    try_out(new, old, seed=1, orders=100)


@pytest.mark.parametrize("listing", ["1.1", "1.2"])
def test_an_equal_document_in_another_order_is_an_empty_plan(listing: str) -> None:
    text = (FIXTURES / f"speck-listing-{listing}.yaml").read_text()
    head, *jobs = text.split("- job_name")
    turned = head + "".join(f"- job_name{job.rstrip()}\n# note\n" for job in reversed(jobs))
    assert between(of(text), of(turned)).empty


def test_through_includes_and_expressions_is_an_empty_plan(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("sites: {n: {broker: kafka}}\nconstants: {two: 2}")
    (tmp_path / "p.yaml").write_text(
        "pipeline: p\ninclude: s.yaml\ndefaults: {streams: {partitions: '${{ two }}'}}\n"
        "jobs: {j: {from: a, sql: x}}\nstreams: {a: {}}"
    )
    plain = of(
        "pipeline: p\nsites: {n: {broker: kafka}}\nstreams: {a: {partitions: 2}}\n"
        "jobs: {j: {from: a, sql: x}}"
    )
    assert between(plain, load(tmp_path / "p.yaml").required()).empty


def test_from_nothing_everything_is_created_in_order() -> None:
    found = plan(load(EXAMPLE).required(), Observed(), {})
    assert {item.action for item in found.steps} == {Action.CREATE}
    assert before(found, "create broker north", "create stream raw-1")
    assert before(found, "create stream raw-1", "create job clean-1")
    jobs = [step for step in found.steps if step.kind is Kind.JOB]
    assert not any(name.startswith("create job") for step in jobs for name in step.after)
    assert found.notes == (
        "mode: decided at start (17 jobs; no engine was asked)",
        "local-north, local-west, local-south, global: windows are the engine's own, fast",
    )


def test_to_nothing_everything_is_removed_from_the_source_on() -> None:
    old = load(EXAMPLE).required()
    found = between(old, dataclasses.replace(old, sites={}, streams={}, jobs={}))
    assert {item.action for item in found.steps} == {Action.DELETE}
    assert before(found, "delete job clean-1", "delete job forward-north")
    assert before(found, "delete job forward-north", "delete job global")
    assert before(found, "delete stream merged", "delete broker cloud")


BASE = """
pipeline: p
pilots: {x: {resource: slurm://localhost, cores: 4}, y: {parent: x}}
sites: {n: {broker: kafka, pilot: x}, m: {broker: kafka, engine: {kind: spark, options: {a: 1}}}}
streams: {a: {site: n}, b: {site: n, retention: 1 d}, c: {site: n}}
jobs:
  j: {site: n, from: a, to: b, sql: SELECT 1}
  k: {site: n, from: b, to: c, map: "m:f"}
"""


@pytest.mark.parametrize(
    ("old", "new", "job", "impact", "keeps"),
    [
        ("sql: SELECT 1", "sql: SELECT 2", "j", Impact.STATE_LOST, ("offsets",)),
        (
            "sql: SELECT 1",
            "sql: SELECT 1, replicas: 3",
            "j",
            Impact.RESCALE,
            ("checkpoint", "state", "offsets"),
        ),
        (
            "sql: SELECT 1",
            "sql: SELECT 1, description: d",
            "j",
            Impact.IGNORE,
            ("checkpoint", "state", "offsets"),
        ),
        ('map: "m:f"', 'map: "m:g"', "k", Impact.RESTART, ("checkpoint", "offsets")),
        ("from: b, to: c, map", "from: [b, a], to: c, map", "k", Impact.REPLACE, ("offsets",)),
        ("from: b, to: c, map", "from: a, to: c, map", "k", Impact.REPLACE, ()),
        (
            "from: b, to: c, map",
            "from: {stream: b, consumes: 3}, to: c, map",
            "k",
            Impact.IGNORE,
            ("checkpoint", "offsets"),
        ),
        ('map: "m:f"', "window: 10 s, python: x", "k", Impact.REPLACE, ("offsets",)),
    ],
)
def test_each_change_has_its_cost_and_what_it_keeps(
    old: str, new: str, job: str, impact: Impact, keeps: tuple[str, ...]
) -> None:
    text = BASE.replace(old, new)
    if "from: a, to: c" in text:
        text = text.replace("jobs:", "jobs:\n  i: {site: n, from: b, sql: z}")
    found = step(between(of(BASE), of(text)), f"change job {job}")
    assert (found.impact, found.keeps) == (impact, keeps)


def test_facts_lower_the_cost_of_a_job_without_state() -> None:
    changed = of(BASE.replace("SELECT 1", "SELECT 2"))
    facts = {"j": JobFacts(mode=Mode.REAL_TIME, stateful=False, reasons=("no aggregate",))}
    found = plan(changed, Observed(of(BASE)), facts)
    assert step(found, "change job j").impact is Impact.REPLACE
    assert found.notes == ("mode of j: real-time (no aggregate)",)
    facts = {"j": JobFacts(mode=Mode.MICRO_BATCH, stateful=True)}
    notes = plan(changed, Observed(of(BASE)), facts).notes
    assert notes == (f"j: {GOES_ON}", "mode of j: micro-batch")


def test_a_job_with_state_loses_it_when_it_is_replaced() -> None:
    windowed = BASE.replace("sql: SELECT 1", "window: 10 s, checkpoint: {at: local}, python: x")
    shared = windowed.replace("at: local", "at: shared")
    assert step(between(of(windowed), of(shared)), "change job j").impact is Impact.STATE_LOST


def test_state_that_goes_on_with_new_code_is_said() -> None:
    """The folder stays where the inputs do; whether its state fits only the engine knows."""
    old = BASE.replace("sql: SELECT 1", "window: 10 s, python: x")
    note = "j: state goes on where the new code fits it; where it does not, the start is refused"
    assert note in between(of(old), of(old.replace("python: x", "python: y"))).notes
    others = old.replace("python: x", "python: y").replace(
        "j: {site: n, from: a", "j: {site: n, from: c"
    )
    others = others.replace("from: b, to: c", "from: b, to: a")
    assert note not in between(of(old), of(others)).notes
    assert note not in between(of(old), of(BASE)).notes
    facts = {"j": JobFacts(stateful=False)}
    changed = of(BASE.replace("SELECT 1", "SELECT 2"))
    assert not any("state" in text for text in plan(changed, Observed(of(BASE)), facts).notes)


def test_who_keeps_state_and_joins_or_leaves_a_query_loses_it() -> None:
    head = "pipeline: p\nsites: {n: {broker: kafka}}\n"
    apart = (
        f"{head}streams: {{a: {{schema: {{at: timestamp}}}}, t: {{}}, o: {{}}}}\njobs:\n"
        "  j: {from: a, to: t, sql: x}\n"
        "  k: {from: t, to: o, window: {of: 10 s, by: at}, sql: y}"
    )
    fused = apart.replace("t: {}", "t: {transient: true}")
    plain = {text: text.replace("window: {of: 10 s, by: at}, ", "") for text in (apart, fused)}
    facts = {"j": JobFacts(stateful=False)}
    for old, new in ((apart, fused), (fused, apart)):
        found = step(plan(of(new), Observed(of(old)), facts), "change job j")
        assert found.impact is Impact.STATE_LOST
        assert "fused with it" in found.reasons[0].text
        without = plan(of(plain[new]), Observed(of(plain[old])), facts)
        assert step(without, "change job j").impact is Impact.RESTART


def test_a_job_that_is_down_is_started() -> None:
    found = plan(of(BASE), Observed(of(BASE), frozenset({"j"})), {})
    assert [item.id for item in found.steps] == ["start job j"]
    assert found.steps[0].keeps == ("checkpoint", "state", "offsets")


def test_a_job_moves_with_its_checkpoint() -> None:
    found = step(between(of(BASE), of(BASE.replace("j: {site: n", "j: {site: m"))), "move job j")
    assert (found.impact, found.place) == (Impact.RESTART, "m")
    assert found.keeps == ("checkpoint", "state", "offsets")


def test_another_name_for_the_same_engine_is_no_move() -> None:
    site = 'sites: {%s: {broker: kafka, engine: {kind: spark, address: "spark://h:7077"}}}\n'
    rest = "streams: {a: {}}\njobs: {j: {from: a, sql: x}}"
    attached = 'broker: {kind: kafka, address: "h:9092"}'
    old = of("pipeline: p\n" + (site % "n").replace("broker: kafka", attached) + rest)
    new = of("pipeline: p\n" + (site % "m").replace("broker: kafka", attached) + rest)
    found = between(old, new)
    assert [(item.id, item.impact) for item in found.steps] == [("change job j", Impact.IGNORE)]


def test_engine_settings_restart_the_jobs_of_the_site() -> None:
    text = BASE.replace("j: {site: n", "j: {site: m")
    found = between(of(text), of(text.replace("a: 1", "a: 2")))
    assert [item.id for item in found.steps] == ["change job j"]
    assert "engine.options" in found.steps[0].reasons[0].text


def test_a_stream_changed_in_place_stops_nobody() -> None:
    found = between(of(BASE), of(BASE.replace("1 d", "2 d")))
    assert [(item.id, item.impact) for item in found.steps] == [("change stream b", Impact.IGNORE)]


def test_more_partitions_pause_writers_then_drain_readers() -> None:
    new = of(BASE.replace("b: {site: n, ", "b: {site: n, partitions: 3, "))
    found = between(of(BASE), new)
    assert [item.id for item in found.steps] == [
        "stop job j",
        "stop job k",
        "change stream b",
        "start job j",
        "start job k",
    ]
    assert step(found, "stop job k").drains == ("b",)
    assert before(found, "stop job j", "stop job k")
    assert found.notes[0].startswith("mode")
    try_out(of(BASE), new, seed=5, orders=30)


def test_fewer_partitions_make_the_stream_anew() -> None:
    old = of(BASE.replace("b: {site: n, ", "b: {site: n, partitions: 3, "))
    assert step(between(old, of(BASE)), "change stream b").impact is Impact.REPLACE
    try_out(old, of(BASE), seed=5, orders=30)


def test_order_that_is_lost_is_said() -> None:
    found = between(of(BASE), of(BASE.replace("a: {site: n}", "a: {site: n, partitions: 2}")))
    assert any("a: written from outside" in note for note in found.notes)


def test_a_stream_at_another_site_is_another_stream() -> None:
    found = between(of(BASE), of(BASE.replace("b: {site: n", "b: {site: m")))
    assert actions(found, Kind.STREAM) == ["create b", "delete b"]
    assert actions(found, Kind.JOB) == ["change j", "change k"]
    assert step(found, "change job k").reasons[0].text == "from: b is at another place"


def test_jobs_round_a_circle_of_needs_stop_first() -> None:
    """u leaves t for s, which may change only after r, which waits for u to leave t."""
    head = "pipeline: p\nsites: {n: {broker: kafka}}\n"
    old = of(
        head + "streams: {q: {}, t: {}, s: {}, o: {}}\njobs:\n"
        "  u: {from: q, to: t, sql: x}\n  r: {from: [t, s], to: o, sql: x}"
    )
    new = of(
        head + "streams: {q: {}, s: {partitions: 4}, o: {}}\njobs:\n"
        "  u: {from: q, to: s, sql: x}\n  r: {from: s, to: o, sql: x}"
    )
    found = between(old, new)
    assert "stop job u" in {item.id for item in found.steps}
    assert before(found, "stop job u", "stop job r")
    assert before(found, "change stream s", "change job u")
    try_out(old, new, seed=3, orders=50)


def test_pilots_brokers_and_parents_come_in_order() -> None:
    found = plan(of(BASE), Observed(), {})
    assert before(found, "create pilot x", "create pilot y")
    assert before(found, "create pilot x", "create broker n")
    assert before(found, "create pilot x", "create job j")
    back = between(of(BASE), Pipeline("p"))
    assert before(back, "delete pilot y", "delete pilot x")
    assert before(back, "delete broker n", "delete pilot x")
    assert before(back, "delete job k", "delete pilot x")


def test_a_pilot_grows_in_place_and_is_replaced_elsewhere() -> None:
    grown = between(of(BASE), of(BASE.replace("cores: 4", "cores: 8")))
    assert [(item.id, item.impact) for item in grown.steps] == [("change pilot x", Impact.RESCALE)]
    elsewhere = between(of(BASE), of(BASE.replace("slurm://localhost", "ssh://h")))
    assert actions(elsewhere, Kind.PILOT) == ["create x", "delete x"]
    assert actions(elsewhere, Kind.JOB) == ["move j", "move k"]
    assert "the engine of site n is another one" in {
        reason.text for item in elsewhere.steps for reason in item.reasons
    }


def test_a_broker_changes_its_settings_in_place() -> None:
    new = of(BASE.replace("n: {broker: kafka,", "n: {broker: {options: {x: 1}},"))
    assert [item.id for item in between(of(BASE), new).steps] == ["change broker n"]


def test_a_renamed_stream_of_the_same_topic_restarts_its_jobs() -> None:
    new = of(
        BASE.replace("b: {site: n,", "z: {site: n, topic: b,")
        .replace("to: b", "to: z")
        .replace("from: b", "from: z")
    )
    found = between(of(BASE), new)
    assert actions(found, Kind.STREAM) == []
    assert {item.impact for item in found.steps} == {Impact.RESTART}


def test_streams_used_from_outside_are_noted_when_they_go() -> None:
    found = between(of(BASE), of("pipeline: p\nsites: {n: {broker: kafka}}"))
    assert any("a: written from outside" in note for note in found.notes)
    assert any("c at n: read from outside" in note for note in found.notes)


def test_variants_and_lists_of_records_are_compared_part_by_part() -> None:
    text = BASE.replace('map: "m:f"', "process: x, variants: {v: {backend: a}}").replace(
        "broker: kafka, pilot: x", "engine: [spark, process], broker: kafka, pilot: x"
    )
    found = between(of(text), of(text.replace("backend: a", "backend: b")))
    assert found.steps[0].reasons[0].text == "variants.v.backend: a -> b"
    more = between(of(text), of(text.replace("{v: {backend: a}}", "{v: {backend: a}, w: c}")))
    assert more.steps[0].reasons[0].field == "variants"


def test_engines_of_a_site_are_compared_one_by_one() -> None:
    site = of(BASE).sites["m"]
    engine = dataclasses.replace(site.engines[0], options={"a": 2}, master="local[2]")
    reasons = differences(site, dataclasses.replace(site, engines=(engine,)))
    assert [reason.field for reason in reasons] == ["engine[0].master", "engine[0].options"]
    more = dataclasses.replace(site, engines=(*site.engines, engine))
    assert [reason.field for reason in differences(site, more)] == ["engine"]


def test_long_values_are_cut_in_reasons() -> None:
    found = between(of(BASE), of(BASE.replace("SELECT 1", "SELECT " + "1 + " * 100 + "1")))
    assert len(found.steps[0].reasons[0].new) == 120
    assert found.steps[0].reasons[0].new.endswith("...")


def test_levels_put_side_by_side_what_may_run_so() -> None:
    levels = between(*speck_pair()).levels()
    assert {item.id for item in levels[0]} == {
        "create stream T-C2-filter",
        "create stream T-D-merger",
        "create stream T-D-total",
        "delete job B",
    }
    assert [item.id for item in levels[3]] == ["move job D"]
