"""When jobs are over, decided without any of them."""

from __future__ import annotations

from millrace.agent.ends import feeders, in_drain_order, over
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobState
from millrace.spec import load_text

TEXT = """
pipeline: ends
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, more: {schema: {n: int}}, clean: {}, out: {}}
jobs:
  source: {read: lines.jsonl, to: raw}
  clean: {from: raw, to: clean, sql: SELECT * FROM raw}
  both: {from: [clean, more], to: out, sql: SELECT n FROM clean}
"""
RUNNING, ENDED = JobState.RUNNING, JobState.ENDED


def pipeline(text: str = TEXT) -> Pipeline:
    return load_text(text, "ends.yaml").required()


def names(found: Pipeline, *, seconds: float = 0.0, **states: JobState) -> list[str]:
    known = {name: states.get(name, RUNNING) for name in found.jobs}
    times = dict.fromkeys(found.jobs, seconds)
    return [job.name for job in over(as_queries(found), feeders(found), known, times)]


def test_jobs_end_with_their_inputs_one_after_another() -> None:
    assert names(pipeline()) == []
    assert names(pipeline(), source=ENDED) == ["clean"]
    assert names(pipeline(), source=ENDED, clean=JobState.FAILED) == []


def test_a_stream_from_elsewhere_never_ends() -> None:
    assert names(pipeline(), source=ENDED, clean=ENDED) == []


def test_never_and_after() -> None:
    text = TEXT.replace("to: clean,", "to: clean, end: never,")
    assert names(pipeline(text), source=ENDED) == []
    text = TEXT.replace("to: raw}", "to: raw, end: {after: 5 s}}")
    assert names(pipeline(text), seconds=4.9) == []
    assert names(pipeline(text), seconds=5.0) == ["source"]


def test_a_program_ends_by_itself() -> None:
    text = TEXT.replace("sql: SELECT * FROM raw", "jar: it.jar")
    assert names(pipeline(text), source=ENDED) == []


LETTERS = """
pipeline: letters
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}, dead_letters: bad}, bad: {format: text}, out: {}, seen: {}}
jobs:
  a-look: {from: bad, to: seen, sql: SELECT * FROM bad}
  clean: {from: raw, to: out, sql: SELECT * FROM raw}
  source: {read: lines.jsonl, to: raw}
"""


def test_who_rejects_records_writes_dead_letters() -> None:
    found = pipeline(LETTERS)
    assert names(found) == []
    assert names(found, source=ENDED) == ["clean"]
    assert names(found, source=ENDED, clean=ENDED) == ["a-look"]
    order = in_drain_order(found, feeders(found))
    assert [job.name for job in order] == ["source", "clean", "a-look"]


def test_dead_letters_of_a_stream_inside_a_query_come_from_its_reader() -> None:
    mid = "mid: {transient: true, schema: {n: int}, dead_letters: bad}"
    text = LETTERS.replace("schema: {n: int}, dead_letters: bad}", f"schema: {{n: int}}}}, {mid}")
    more = "  more: {from: mid, to: out, sql: SELECT * FROM mid}"
    found = pipeline(text.replace("from: raw, to: out", "from: raw, to: mid") + more)
    assert list(as_queries(found).jobs) == ["a-look", "clean", "source"]
    assert names(found, source=ENDED) == ["clean"]
    assert names(found, source=ENDED, clean=ENDED, more=ENDED) == ["a-look"]
    order = in_drain_order(as_queries(found), feeders(found))
    assert [job.name for job in order] == ["source", "clean", "a-look"]


def test_who_reads_the_letters_that_it_writes_waits_for_others_only() -> None:
    found = pipeline(LETTERS.replace("{from: raw, to: out", "{from: [raw, bad], to: out"))
    assert names(found, source=ENDED) == ["clean"]


def test_a_circle_through_dead_letters_is_drained_and_never_over() -> None:
    """Records that are mended go back into the stream that they came from."""
    again = LETTERS.replace("from: bad, to: seen,", "from: bad, to: raw,").replace(", seen: {}", "")
    found = pipeline(again.replace("SELECT * FROM bad", "SELECT 1 AS n FROM bad"))
    assert names(found, source=ENDED) == []
    order = [job.name for job in in_drain_order(found, feeders(found))]
    assert sorted(order) == ["a-look", "clean", "source"]
    assert order.index("a-look") < order.index("clean")
