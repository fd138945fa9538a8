"""When jobs are over, decided without any of them."""

from __future__ import annotations

from millrace.agent.ends import complete, over
from millrace.model.pipeline import Pipeline
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
    return [job.name for job in over(found, known, dict.fromkeys(found.jobs, seconds))]


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


def test_all_are_over() -> None:
    found = pipeline()
    assert complete(found, dict.fromkeys(found.jobs, ENDED))
    assert not complete(found, {**dict.fromkeys(found.jobs, ENDED), "both": RUNNING})
