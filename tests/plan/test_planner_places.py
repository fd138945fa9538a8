"""What a plan says of things that change their place, their log or those around them."""

from __future__ import annotations

from millrace.model import Impact
from millrace.model.status import Observed
from millrace.model.step import Kind
from millrace.plan import plan
from tests.plan.test_planner import BASE, actions, before, between, of, step

DIRECT = BASE.replace("b: {site: n, retention: 1 d}", "b: {site: n, transport: zmq}")


LETTERS = BASE.replace("a: {site: n}", "a: {site: n, dead_letters: bad}, bad: {site: n}")


def test_readers_of_a_log_that_is_made_anew_keep_no_place_in_it() -> None:
    old = of(BASE.replace("b: {site: n, ", "b: {site: n, partitions: 3, "))
    found = between(old, of(BASE))
    reader = step(found, "start job k")
    assert (reader.impact, reader.keeps, reader.joins) == (Impact.REPLACE, (), ("b",))
    assert "the log of b is made anew" in {reason.text for reason in reader.reasons}
    assert step(found, "start job j").keeps == ("checkpoint", "state", "offsets")
    outer = between(of(BASE.replace("c: {site: n}", "c: {site: n, partitions: 2}")), of(BASE))
    assert any("c at n: read from outside" in note for note in outer.notes)


def test_all_streams_that_a_job_stops_for_are_named() -> None:
    text = BASE.replace("site: n}", "site: n, partitions: 2}").replace(
        "b: {", "b: {partitions: 2, "
    )
    reasons = step(between(of(BASE), of(text)), "stop job j").reasons
    assert [reason.text for reason in reasons] == ["stream a is changed", "stream b is changed"]


def test_things_that_keep_their_name_say_why_they_are_others() -> None:
    longer = between(
        of(BASE.replace("cores: 4", "cores: 4, walltime: 1 h")),
        of(BASE.replace("cores: 4", "cores: 4, walltime: 2 h")),
    )
    for name in ("create pilot x", "delete pilot x", "create broker n", "delete broker n"):
        assert any("walltime: 1 h -> 2 h" in reason.text for reason in step(longer, name).reasons)
    topic = between(of(BASE), of(BASE.replace("b: {site: n,", "b: {site: n, topic: z,")))
    assert step(topic, "create stream b").reasons[0].text == "topic: b -> z"
    attached = BASE.replace("n: {broker: kafka,", "n: {broker: {address: 'h:1'},")
    other = between(of(attached), of(attached.replace("h:1", "h:2")))
    assert "broker.address: h:1 -> h:2" in step(other, "create stream b").reasons[0].text


def test_settings_of_attached_brokers_and_of_sites_of_programs_restart_jobs() -> None:
    text = BASE.replace("n: {broker: kafka,", "n: {broker: {address: 'h:1', options: {a: 1}},")
    found = between(of(text), of(text.replace("a: 1}}, pilot", "a: 2}}, pilot")))
    assert actions(found, Kind.JOB) == ["change j", "change k"]
    program = BASE.replace(
        "n: {broker", "n: {engine: [spark, process], cores: [0], broker"
    ).replace('map: "m:f"', "process: x")
    found = between(of(program), of(program.replace("cores: [0]", "cores: [1]")))
    assert actions(found, Kind.JOB) == ["change k"]


def test_direct_streams_keep_nothing() -> None:
    found = between(of(DIRECT), of(DIRECT.replace('"m:f"', '"m:g"')))
    assert step(found, "change job k").keeps == ("checkpoint",)
    assert any(note.startswith("b: direct") for note in found.notes)
    moved = between(of(DIRECT), of(DIRECT.replace("b: {site: n", "b: {site: m")))
    assert actions(moved, Kind.STREAM) == ["create b", "delete b"]


def test_inputs_that_are_all_made_anew_leave_no_offsets() -> None:
    text = BASE.replace("from: b, to: c", "from: [a, b], to: c")
    more = text.replace("a: {site: n}", "a: {site: n, partitions: 2}")
    more = more.replace("b: {site: n, ", "b: {site: n, partitions: 2, ")
    assert step(between(of(more), of(text)), "start job k").keeps == ()


def test_a_job_that_is_down_reads_nothing_to_its_end() -> None:
    found = plan(of("pipeline: p"), Observed(of(BASE), frozenset({"k"})), {})
    assert step(found, "delete job k").drains == ()
    assert any(note.startswith("k: not running") for note in found.notes)


def test_direct_streams_are_noted_when_their_reader_only_stops() -> None:
    text = DIRECT.replace("from: b, to: c", "from: [a, b], to: c")
    found = between(of(text), of(text.replace("a: {site: n}", "a: {site: n, partitions: 2}")))
    assert any(note.startswith("b: direct") for note in found.notes)


def test_another_name_of_the_pipeline_is_noted() -> None:
    found = between(of(BASE), of(BASE.replace("pipeline: p", "pipeline: q")))
    assert found.empty
    assert found.notes == ("the pipeline was called 'p' and is called 'q'",)


def test_code_of_data_frames_may_be_another_query() -> None:
    text = BASE.replace("sql: SELECT 1", "window: 10 s, python: m:f")
    found = between(
        of(text), of(text.replace("m:f, ", "m:g, ").replace("python: m:f", "python: m:g"))
    )
    assert step(found, "change job j").impact is Impact.STATE_LOST


def test_where_malformed_records_go_is_part_of_the_order() -> None:
    found = plan(of(LETTERS), Observed(), {})
    assert before(found, "create stream bad", "create job j")
    moved = between(of(LETTERS), of(LETTERS.replace("bad: {site: n}", "bad: {site: m}")))
    assert actions(moved, Kind.JOB) == ["change j"]
    assert step(moved, "change job j").reasons[0].text == "dead letters: bad is at another place"
    assert not any("bad" in note and "written" in note for note in moved.notes)
    assert before(moved, "change job j", "delete stream bad")


def test_a_reader_of_dead_letters_had_better_stop_after_those_who_write_them() -> None:
    reader = LETTERS + "  l: {site: n, from: bad, sql: y}\n"
    found = between(of(reader), of("pipeline: p"))
    assert before(found, "delete job j", "delete job l")
    back = LETTERS + "  l: {site: n, from: bad, to: a, sql: y}\n"  # the need outweighs the wish
    found = between(of(back), of("pipeline: p"))
    assert before(found, "delete job l", "delete job j")
    assert not before(found, "delete job j", "delete job l")


def test_a_stream_that_goes_from_a_broker_of_others_may_leave_its_topic() -> None:
    theirs = BASE.replace("n: {broker: kafka,", "n: {broker: {kind: kafka, address: 'k:9092'},")
    assert theirs != BASE
    for text, told in ((BASE, False), (theirs, True)):
        gone = of(text.replace("c: {site: n}", "z: {site: n}").replace("to: c", "to: z"))
        notes = between(of(text), gone).notes
        assert any(note.startswith("c: at a broker that is not ours") for note in notes) is told
