"""A coordinator to whom nothing happens does nothing, and takes next to nothing for it."""
# ruff: noqa: S608 - queries of a pipeline text, from numbers

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from millrace.coordinator.rounds import ROUND_SECONDS
from tests.coordinator import played
from tests.coordinator.forked import forked

pytestmark = pytest.mark.timeout(120)
ROUNDS, JOBS, SITES = 1000, 100, 6


def chain() -> str:
    """A pipeline of many jobs in a row, dealt to sites."""
    sites = ", ".join(f"s{n}: {{broker: kafka}}" for n in range(SITES))
    streams = [f"  r{n}: {{site: s{n % SITES}, format: raw}}" for n in range(JOBS + 1)]
    jobs = [
        f'  j{n}: {{site: s{n % SITES}, from: r{n}, to: r{n + 1}, sql: "SELECT * FROM r{n}"}}'
        for n in range(JOBS)
    ]
    head = f"pipeline: roads\nsites: {{{sites}}}\nstreams:\n"
    return "\n".join([head + "\n".join(streams), "jobs:", *jobs]) + "\n"


def calm() -> None:
    """Apply a file, then go round and round; tell what that took."""
    home, file = Path(sys.argv[1]), sys.argv[2]
    with played.playing(home) as (rounds, _):
        played.apply(rounds, file)
        for _ in range(ROUNDS // 10):  # what is made at first is there
            rounds.round()
        log, me = home / "places", psutil.Process()
        done, memory, begun = log.read_text(), me.memory_info().rss, time.process_time()
        for _ in range(ROUNDS):
            rounds.round()
        found = {
            "effects": log.read_text().removeprefix(done).split(),
            "seconds": (time.process_time() - begun) / ROUNDS,
            "growth": me.memory_info().rss / memory - 1,
            "running": len(rounds.coordinator.board("roads").deployment.jobs),
        }
        (home / "found.json").write_text(json.dumps(found))


def test_a_thousand_rounds_without_news_do_nothing(tmp_path: Path) -> None:
    (tmp_path / "roads.yaml").write_text(chain())
    log = {"MILLRACE_FAILPOINT_LOG": str(tmp_path / "places")}
    arguments = [str(tmp_path), str(tmp_path / "roads.yaml")]
    process = forked(calm, arguments, tmp_path / "said", **log)
    assert process.wait(100) == 0, process.said
    found = json.loads((tmp_path / "found.json").read_text())
    print(found)  # noqa: T201 - for -s
    assert found["effects"] == []
    assert found["running"] == JOBS
    assert found["growth"] < 0.05
    assert found["seconds"] / ROUND_SECONDS < 0.05
