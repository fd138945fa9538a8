"""When a job runs: its query reads, or waits for records; one that can't is no job that runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.engines.spark import lease
from millrace.engines.spark.jobs import Jobs
from millrace.engines.spark.order import order_document
from millrace.engines.spark.session import DriverSettings
from millrace.errors import OperationFailed
from millrace.ports import JobState
from tests.engines.spark.lab import Lab, json_record

pytestmark = [pytest.mark.xdist_group("spark-running"), pytest.mark.timeout(600)]
FILE = """
streams: {{raw: {{schema: {{n: int}}}}, out: {{}}}}
jobs: {{seen: {{from: raw, to: out, sql: "SELECT n FROM raw", mode: {}}}}}
"""
MODES = ("real-time", "micro-batch")


@pytest.mark.parametrize("mode", MODES)
def test_a_start_fails_where_its_query_can_not_read(lab: Lab, mode: str) -> None:
    """Spark takes such a query, and finds out when it plans the first batch."""
    with lab.case(FILE.format(mode)) as case:
        order = case.order("seen")
        nowhere = replace(case.pipeline.streams["raw"], topic="nowhere")
        streams = {**case.pipeline.streams, "raw": nowhere}
        elsewhere = replace(order, pipeline=replace(order.pipeline, streams=streams))
        with pytest.raises(OperationFailed, match="seen") as caught:
            lab.engine.start(elsewhere)
        assert caught.value.code == "no-stream"
        assert lab.engine.status()["seen"].state is JobState.FAILED
        held = lease.holder(order.place)
        assert (held is not None and held.pid) == lease.NOBODY  # others may have its place
        case.send("raw", [json_record(n=n) for n in range(3)])
        case.start("seen")
        assert len(case.read("out", 3)) == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backlog", [0, 1000])
def test_it_is_known_when_a_query_reads(lab: Lab, mode: str, backlog: int) -> None:
    """Whether there is nothing to read or much: else each start would wait for its limit."""
    with lab.case(FILE.format(mode)) as case:
        case.send("raw", [json_record(n=n) for n in range(backlog)])
        case.started.append("seen")
        order = order_document(case.order("seen"))
        assert lab.engine._ask({"do": "start", "order": order})["begun"]
        status = lab.engine.status()["seen"]
        assert (status.state, status.run != "") == (JobState.RUNNING, True)


@dataclass
class Known:
    """A query of which only its run is asked for."""

    run: str


def test_the_end_of_an_earlier_run_says_nothing_of_the_next(tmp_path: Path) -> None:
    """Spark may tell it when a start that failed was tried again already."""
    told: list[dict[str, Any]] = []
    jobs = Jobs(cast("Any", None), DriverSettings(tmp_path, ()), told.append)
    jobs._queries["seen"] = cast("Any", Known("second"))
    jobs.terminated("seen", "first", "it could not read")
    assert (list(jobs._queries), told) == (["seen"], [])
