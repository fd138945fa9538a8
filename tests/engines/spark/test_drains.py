"""Whether all up to some ends is committed, by checkpoints alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.engines.spark import lease
from millrace.engines.spark.drains import drained, not_drained
from millrace.engines.spark.jobs import Jobs
from millrace.errors import OperationFailed
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Stream
from millrace.ports import JobOrder
from tests.agent.checkpoints import write_checkpoint


def order(place: Path) -> JobOrder:
    streams = {"cars": Stream(name="cars", topic="t"), "more": Stream(name="more")}
    return JobOrder(Pipeline("p", streams=streams), Job(name="j"), {}, place, place)


def test_the_checkpoint_says_what_is_drained(tmp_path: Path) -> None:
    job = order(tmp_path)
    assert drained(job, {"cars": {}})
    assert not drained(job, {"cars": {0: 1}})
    write_checkpoint(tmp_path, {"t": {0: 5, 1: 7}, "more": {0: 2}})
    assert drained(job, {"cars": {0: 5, 1: 7}, "more": {0: 2}})
    assert drained(job, {"cars": {0: 3}})
    assert not drained(job, {"cars": {0: 5, 1: 8}})
    assert not drained(job, {"cars": {0: 5}, "more": {0: 3}})


def test_a_job_that_is_not_there_is_drained_only_where_nothing_was_left() -> None:
    jobs = Jobs(cast(Any, None), cast(Any, None), lambda _: None)
    assert jobs.stop("j", None) == {}
    assert jobs.stop("j", {"cars": {}}) == {}
    with pytest.raises(OperationFailed, match="job j was not drained") as caught:
        jobs.stop("j", {"cars": {"0": 5}})
    assert (caught.value.code, caught.value.transient) == ("not-drained", True)


def test_a_reason_names_the_job_once() -> None:
    assert not_drained("j", "job j: no disk").message == "job j was not drained: no disk"


def test_a_start_that_fails_lets_go_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the job ran before, it goes on: in another driver, perhaps."""
    jobs = Jobs(cast(Any, None), cast(Any, None), lambda _: None)
    made = SimpleNamespace(
        query=None,
        choice=None,
        session=SimpleNamespace(streams=SimpleNamespace(addListener=lambda _: None)),
    )
    monkeypatch.setattr(Jobs, "_prepared", lambda *_: made)

    def fails(*_: object) -> None:
        raise OperationFailed("no", "no room for it")

    monkeypatch.setattr("millrace.engines.spark.jobs.once_of", fails)
    with pytest.raises(OperationFailed, match="no room"):
        jobs.start(order(tmp_path))
    left = lease.holder(tmp_path)
    assert left is not None
    assert left.pid == lease.NOBODY
