"""The road-traffic pipeline as it really runs: its results equal those of plain Python."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.cli.running import running
from tests.examples.parts import FOLDER, part

SEED, SECONDS, PER_SECOND = 7, 4.0, 1000.0
pytestmark = pytest.mark.timeout(600)


def test_results_equal_plain_python(tmp_path: Path) -> None:
    demo, drive, expected, vehicles = map(part, ("demo", "drive", "expected", "vehicles"))
    home = tmp_path / "home"
    with running(FOLDER / "pipeline.yaml", home, "--profile", "laptop") as pipeline:
        pipeline.await_said("road-traffic runs")
        traffic = demo.Traffic(home)
        sent = drive.drive(
            traffic.sensor, SEED, SECONDS, PER_SECOND, None,
            settled=traffic.settled, limit=demo.LIMIT, lockstep=True,
        )  # fmt: skip
        made = vehicles.records(SEED, vehicles.SENSORS, SECONDS, PER_SECOND)
        wanted = expected.expected(made)
        assert sent > SECONDS * PER_SECOND * 0.9
        assert sum(wanted.malformed.values()) > 10
        demo.await_(lambda: demo.closed(traffic, wanted), "windows are still open")
        assert demo.compared(traffic, wanted) == []
        rejected = traffic.log("rejected").ends("rejected")
        assert sum(span.end for span in rejected.values()) == sum(wanted.malformed.values())
        started = pipeline.children()
        code, seconds = pipeline.interrupt(60)
        assert code == 0
        assert seconds < 15
        assert not any(
            child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started
        )
