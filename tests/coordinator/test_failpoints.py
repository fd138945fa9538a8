"""kill -9 of a coordinator at everything that it keeps or does: what comes after is right."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import inspect
import json
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

import millrace.ports.link
from millrace import ports
from millrace.agent.making import Workshop
from millrace.machine.failpoint import LOOKS
from millrace.ports import EntryKind
from tests.coordinator import played
from tests.coordinator.forked import forked

pytestmark = pytest.mark.timeout(300)
HEAD = """
pipeline: roads
sites: {north: {broker: kafka}, cloud: {broker: kafka}}
streams:
  raw: {site: north, schema: {n: int, at: timestamp}, partitions: 2}
"""
BEFORE = (
    HEAD
    + """
  even: {site: north}
  old: {site: north}
jobs:
  even: {site: north, from: raw, to: even, sql: SELECT n FROM raw}
  half: {site: north, from: even, to: old, sql: SELECT n FROM even}
  same: {site: cloud, from: raw, sql: SELECT n FROM raw}
  count: {site: north, from: raw, window: {of: 10 s, by: at}, aggregate: {n: count(*)}}
"""
)
AFTER = (
    HEAD
    + """
  even: {site: north, partitions: 3}
  out: {site: cloud}
jobs:
  even: {site: north, from: raw, to: even, sql: SELECT n FROM raw}
  half: {site: cloud, from: even, to: out, sql: SELECT n FROM even}
  same: {site: cloud, from: raw, sql: SELECT n FROM raw}
  count: {site: cloud, from: raw, window: {of: 10 s, by: at}, aggregate: {n: count(*)}}
  late: {site: cloud, from: raw, sql: SELECT n FROM raw}
"""
)
#: All that was in the north goes, its broker, too.
LAST = """
pipeline: roads
sites: {cloud: {broker: kafka}}
streams:
  raw: {site: cloud, schema: {n: int, at: timestamp}, partitions: 2}
jobs:
  same: {site: cloud, from: raw, sql: SELECT n FROM raw}
"""
NORTH = [["count", "north"], ["even", "north"], ["half", "north"], ["same", "cloud"]]
CLOUD = [["count", "cloud"], ["even", "north"], ["half", "cloud"], ["late", "cloud"]]
CLOUD += [["same", "cloud"]]
#: What a coordinator's changes don't come to, with why, and the test that comes there.
_DRIVERS = "drivers do that, in processes of their own"
ELSEWHERE = {
    "engine.kill": (
        "a stop that takes too long when a lease has run out",
        "agent/test_keeper.py::"
        "test_a_stop_that_takes_too_long_when_a_lease_has_run_out_ends_the_engine",
    ),
    "workshop.kill": (
        "the end of a coordinator whose time is over, which is no part of a change",
        "coordinator/test_taking_over.py::"
        "test_one_that_slept_while_another_took_over_does_nothing_when_it_wakes",
    ),
    "store.compact": (
        "it comes with every ten thousandth entry of the journal",
        "stores/test_sqlite.py::test_kill_while_the_journal_is_made_shorter",
    ),
    "link.tell": (
        "agents that joined do",
        "coordinator/test_link_failpoints.py::test_an_agent_may_end_at_all_that_it_tells",
    ),
    "link.send": (
        "agents that joined do",
        "coordinator/test_link_failpoints.py::test_an_agent_may_end_while_state_leaves_it",
    ),
    "link.fetch": (
        "agents that joined do",
        "coordinator/test_link_failpoints.py::test_an_agent_may_end_while_state_comes_to_it",
    ),
    "log.write": (_DRIVERS, "engines/spark/test_state_kills.py::test_kills_change_no_result"),
    "transactions.open": (
        _DRIVERS,
        "engines/spark/test_once.py::test_kills_leave_each_batch_once",
    ),
    "transactions.has": (
        _DRIVERS,
        "engines/spark/test_once.py::test_a_batch_that_spark_did_not_note_is_not_written_again",
    ),
    "transactions.write": (
        _DRIVERS,
        "engines/spark/test_once.py::test_kills_leave_each_batch_once",
    ),
    "transactions.close": (
        _DRIVERS,
        "engines/spark/test_once.py::test_what_a_transaction_gave_up_is_not_taken_for_written",
    ),
    "journal.event": (
        "tells of an undoing and of tokens, and is no step of a change",
        "coordinator/test_taking_over.py::test_the_first_token_is_known_to_its_owner_after_a_crash",
    ),
}
ENDS = ("before", "after")
#: After so long a coordinator that was started again has found its way.
BACK_SECONDS = 15.0


def ended(home: Path, *files: Path, **environment: str) -> int:
    """Run a coordinator over fakes to its end."""
    arguments = [str(home), *map(str, files)]
    return forked(played.main, arguments, home / "said", **environment).wait(120)


def running(home: Path) -> Any:
    return json.loads((home / "running.json").read_text())


@dataclass(frozen=True)
class Sweep:
    """A change that is made again and again from the same state, ended at each of its places."""

    folder: Path
    base: Path
    file: Path

    def calm(self, name: str) -> tuple[Path, list[str]]:
        """Let it come to its end; returns the home, and the places."""
        home, log = copied(self.base, self.folder / name), self.folder / f"{name}.places"
        code = ended(home, self.file, MILLRACE_FAILPOINT_LOG=str(log))
        assert code == 0, (home / "said").read_text()
        return home, log.read_text().split()

    def killed(self, place: str) -> list[list[str]]:
        """End it at a place by kill -9, and start a coordinator; returns what runs then where.

        It must have come there, and no further.
        """
        home = copied(self.base, self.folder / f"{self.file.stem}-at-{place}")
        log = home / "places"
        environment = {"MILLRACE_FAILPOINT": place, "MILLRACE_FAILPOINT_LOG": str(log)}
        assert ended(home, self.file, **environment) == -signal.SIGKILL, place
        assert log.read_text().split()[-1] == place
        begun = time.monotonic()
        assert ended(home) == 0, (place, (home / "said").read_text())
        assert time.monotonic() - begun < BACK_SECONDS, place
        assert not (home / "violations").exists(), place
        found: list[list[str]] = running(home)
        return found


def test_every_place_of_an_apply_can_be_the_last(tmp_path: Path) -> None:
    """After each a new coordinator finds its way by itself: one instance of each job."""
    before, after, last = tmp_path / "1.yaml", tmp_path / "2.yaml", tmp_path / "3.yaml"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    last.write_text(LAST)
    base = tmp_path / "base"
    base.mkdir()
    assert ended(base, before) == 0, (base / "said").read_text()
    assert running(base) == NORTH
    sweep = Sweep(tmp_path, base, after)
    calm, places = sweep.calm("calm")
    assert running(calm) == CLOUD
    assert len(places) == len(set(places))
    assert missing(places) == []
    going = Sweep(tmp_path, calm, last)
    gone, more = going.calm("gone")
    assert running(gone) == [["same", "cloud"]]
    stops = [place for place in more if place.startswith("broker.stop")]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(places, pool.map(sweep.killed, places), strict=True))
        ends = list(pool.map(going.killed, stops))
    wrong = {place: it for place, it in found.items() if it not in (NORTH, CLOUD)}
    assert wrong == {}
    assert NORTH in found.values()
    assert CLOUD in found.values()
    assert len(ends) > 2  # of the one that goes, and of the one that stays as its coordinator ends
    assert ends == [[["same", "cloud"]]] * len(ends)


def copied(base: Path, home: Path) -> Path:
    shutil.copytree(base, home, ignore=shutil.ignore_patterns("running.json", "said"))
    return home


def boundaries() -> set[str]:
    """All that is kept or done, by the ports as they are and by what a journal may be told."""
    found = {f"journal.{kind.value}" for kind in EntryKind} | {"generations.write"}
    for port in [Workshop, *vars(ports).values(), *vars(millrace.ports.link).values()]:
        if not getattr(port, "_is_protocol", False) or port is Protocol:
            continue
        if port in (ports.BrokerPlugin, ports.EnginePlugin):
            continue  # they only make what does things
        methods = [name for name, _ in inspect.getmembers(port, inspect.isfunction)]
        names = {name for name in methods if not name.startswith("_")} - LOOKS
        found |= {f"{port.__name__.lower()}.{name}" for name in names}
    return found


def missing(places: list[str]) -> list[str]:
    """The boundaries that have no failpoint before and after, though a change comes there."""
    wanted = boundaries()
    assert ELSEWHERE.keys() <= wanted, ELSEWHERE.keys() - wanted
    names = (f"{name}.{moment}" for name in wanted - ELSEWHERE.keys() for moment in ENDS)
    return sorted(name for name in names if f"{name}#1" not in places)


def test_what_the_sweep_does_not_come_to_is_tried_out_elsewhere() -> None:
    tests = Path(__file__).parents[1]
    for place, (why, named) in ELSEWHERE.items():
        file, _, test = named.partition("::")
        assert why, place
        assert f"def {test}(" in (tests / file).read_text(), place
