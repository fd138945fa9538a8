"""Random goals and reports, small but of every kind, for hypothesis."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from millrace.model import Pipeline
from millrace.model.job import Mode
from millrace.model.status import JobFacts
from millrace.ports.engine import Fates, JobState, Progress
from millrace.ports.link import (
    JobGoal,
    JobReport,
    PipelineGoal,
    PipelineReport,
    Question,
    SiteGoal,
    SiteReport,
)


def made(cls: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return things with every field filled now and then: a new one must be told here."""
    assert fields.keys() == {item.name for item in dataclasses.fields(cls)}
    return st.builds(cls, **fields)


def by(
    keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any], most: int = 2
) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, values, max_size=most)


texts = st.text(max_size=6)
whole = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
flags = st.booleans()
several = st.lists(texts, max_size=3).map(tuple)
things = st.tuples(texts, whole)
some_things = st.frozensets(things, max_size=3)
positions = by(texts, by(whole, whole))
#: Anything that JSON can carry.
plain = st.recursive(
    st.none() | flags | whole | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | by(texts, inner, 3),
    max_leaves=6,
)

job_goals = made(
    JobGoal,
    revision=whole,
    generation=whole,
    folder=whole,
    running=flags,
    drains=several,
    to_end=flags,
    begins=positions,
    since=st.none() | whole,
    brought=st.none() | things,
    vouched=flags,
)
questions = made(Question, pipeline=texts, about=texts, name=texts, options=by(texts, whole))


def site_goals(files: st.SearchStrategy[Pipeline]) -> st.SearchStrategy[SiteGoal]:
    pipeline_goals = made(
        PipelineGoal,
        revisions=by(whole, files),
        code=by(whole, texts),
        brokers=by(texts, texts),
        serving=st.none() | whole,
        streams=some_things,
        dropped=some_things,
        jobs=by(texts, job_goals),
        offers=some_things,
        parcels=by(texts, texts),
        watched=flags,
        examined=st.none() | whole,
        queries=st.frozensets(texts, max_size=3),
        joined=st.none() | whole,
        measured=some_things,
    )
    return made(
        SiteGoal,
        generation=whole,
        pipelines=by(texts, pipeline_goals),
        questions=by(texts, questions),
    )


fates = made(
    Fates,
    read=whole,
    used=whole,
    filtered=st.none() | st.just(0) | whole,
    malformed=whole,
    late=whole,
    dropped=whole,
    lost_sight=whole,
    written=by(texts, whole),
)
progress = made(
    Progress,
    batch=whole,
    at=numbers,
    positions=positions,
    rows_per_second=numbers,
    batch_seconds=numbers,
    fates=st.just(Fates()) | fates,
    skew_seconds=st.none() | st.just(0.0) | numbers,
)
job_reports = made(
    JobReport,
    generation=whole,
    state=st.sampled_from(JobState),
    run=texts,
    progress=st.just(Progress()) | progress,
    error=texts,
    hint=texts,
    transient=flags,
    mode=st.none() | st.sampled_from(Mode),
    lag=by(texts, whole),
    behind=by(texts, numbers),
    received=by(texts, by(texts, whole)),
    members=by(texts, progress),
    restarts=whole,
    running=flags,
)
facts = made(
    JobFacts,
    mode=st.none() | st.sampled_from(Mode),
    reasons=several,
    schemas=by(texts, by(texts, texts)),
    operators=several,
    stateful=st.none() | flags,
)
pipeline_reports = made(
    PipelineReport,
    broker=st.none() | texts,
    streams=some_things,
    gone=some_things,
    jobs=by(texts, job_reports),
    errors=by(texts, texts),
    examined=st.none() | whole,
    facts=by(texts, facts),
    refused=by(texts, texts),
    offered=by(things, texts),
    joined=st.none() | whole,
    ends=by(things, by(whole, whole)),
)
site_reports = made(
    SiteReport,
    site=texts,
    generation=whole,
    pipelines=by(texts, pipeline_reports),
    answers=by(texts, by(texts, plain)),
)
