"""kill -9 of a coordinator at everything that it keeps or does: what comes after is right."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import inspect
import json
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
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
NORTH = [["count", "north"], ["even", "north"], ["half", "north"], ["same", "cloud"]]
CLOUD = [["count", "cloud"], ["even", "north"], ["half", "cloud"], ["late", "cloud"]]
CLOUD += [["same", "cloud"]]
#: What a change like this one does not do, and who is tried out at that.
ELSEWHERE = {
    "broker.stop": "the end of a site, planned",
    "engine.close": "the end of a site, planned",
    "engine.kill": "a stop that takes too long when a lease has run out: see test_keeper",
    "workshop.kill": "the end of a site, unplanned",
    "store.close": "the end of a coordinator",
    "store.compact": "nobody does while a change is on its way; one transaction of the store's",
    "link.tell": "a coordinator keeps in memory what it hears: see test_joined_agents",
    "link.fetch": "the same as the depot's, at a site that joined",
    "link.send": "the same as the depot's, at a site that joined",
    "log.write": "drivers and `millrace send` write records, coordinators don't",
    "transactions.open": "drivers do: see the tests of engines",
    "transactions.has": "a look",
    "transactions.write": "drivers do: see the tests of engines",
    "transactions.close": "drivers do: see the tests of engines",
    "journal.event": "tells of an undoing and of tokens, and is no step of a change",
}


#: After so long a coordinator that was started again has found its way.
BACK_SECONDS = 15.0
#: What a fork server says of a process whose end it does not know.
LOST = 255


def ended(home: Path, *files: Path, **environment: str) -> int:
    """Run a coordinator over fakes to its end.

    Python's fork server seldom loses how a process ended and says 255; no program here does. Then
    the same is run again: it finds what was kept, as after any other end.
    """
    arguments = [str(home), *map(str, files)]
    code = forked(played.main, arguments, home / "said", **environment).wait(120)
    if code == LOST:
        code = forked(played.main, [str(home)], home / "said").wait(120)
    return code


def running(home: Path) -> Any:
    return json.loads((home / "running.json").read_text())


def test_every_place_of_an_apply_can_be_the_last(tmp_path: Path) -> None:
    """After each a new coordinator finds its way by itself: one instance of each job."""
    before, after, log = tmp_path / "1.yaml", tmp_path / "2.yaml", tmp_path / "places"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    base = tmp_path / "base"
    base.mkdir()
    assert ended(base, before) == 0, (base / "said").read_text()
    assert running(base) == NORTH
    calm = copied(base, tmp_path / "calm")
    assert ended(calm, after, MILLRACE_FAILPOINT_LOG=str(log)) == 0, (calm / "said").read_text()
    assert running(calm) == CLOUD
    places = list(dict.fromkeys(log.read_text().split()))
    assert missing(places) == []

    def killed(place: str) -> str:
        home = copied(base, tmp_path / f"at-{places.index(place)}")
        code = ended(home, after, MILLRACE_FAILPOINT=place)
        assert code in (0, -signal.SIGKILL), place  # threads may come to a place less often
        begun = time.monotonic()
        assert ended(home) == 0, (place, (home / "said").read_text())
        assert time.monotonic() - begun < BACK_SECONDS, place
        assert running(home) in (NORTH, CLOUD), place
        assert not (home / "violations").exists(), place
        return json.dumps(running(home))

    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(killed, places))
    assert found == {json.dumps(NORTH), json.dumps(CLOUD)}


def copied(base: Path, home: Path) -> Path:
    shutil.copytree(base, home, ignore=shutil.ignore_patterns("running.json", "said"))
    return home


def boundaries() -> set[str]:
    """All that is kept or done, by the ports as they are and by what a journal may be told."""
    found = {f"journal.{kind.value}" for kind in EntryKind} | {"generations.write"}
    for port in [Workshop, *vars(ports).values(), *vars(millrace.ports.link).values()]:
        if not getattr(port, "_is_protocol", False) or port is Protocol:
            continue
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


ENDS = ("before", "after")
