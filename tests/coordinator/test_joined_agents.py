"""An agent as a process of its own: killed, cut off, and told what to do by the wrong one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from millrace.agent.generations import Generations
from millrace.errors import OperationFailed
from millrace.ports.link import SiteGoal
from tests.coordinator.between import Between, between
from tests.coordinator.forked import Forked
from tests.coordinator.town import MORE, Town, document, port, town, until

pytestmark = pytest.mark.timeout(120)
EDGE = ["start edge even", "start edge half"]
#: For how long a site is cut off; a minute in `make soak`.
CUT_SECONDS = float(os.environ.get("CUT_SECONDS", "3"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def site(place: Town) -> dict[str, object]:
    with place.client() as client:
        return client.site("edge")


def silence(place: Town) -> float:
    silent = site(place)["silent"]
    assert isinstance(silent, float)
    return silent


def test_a_killed_agent_goes_on_where_it_was(place: Town) -> None:
    """With the coordinator there, and without: then by what it was told last."""
    at = port()
    first = place.up(port=at)
    place.token("edge")
    agent = place.agent(url(at))
    place.applied(document("edge"))
    before = place.runs("edge")
    agent.kill()
    until(lambda: not place.runs("edge"), 10, lambda: place.runs("edge"))
    agent = place.agent(url(at))
    until(lambda: place.runs("edge").keys() == before.keys(), 20, lambda: agent.said)
    place.await_running()
    assert sorted(place.effects("start", by=agent.pid)) == EDGE
    first.kill()
    agent.kill()
    until(lambda: not place.runs("edge"), 10, lambda: place.runs("edge"))
    agent = place.agent(url(at))
    until(lambda: place.runs("edge").keys() == before.keys(), 20, lambda: agent.said)
    agent.await_said("the site is kept as last told")
    kept = place.runs("edge")
    second = place.up(port=at)
    place.await_running()
    assert place.runs("edge") == kept
    assert sorted(place.effects("start", by=agent.pid)) == EDGE
    assert place.effects(by=first.pid) + place.effects(by=second.pid) == []


def test_an_agent_s_token_is_named_by_the_environment(place: Town) -> None:
    at = port()
    place.up(port=at)
    options = ("--join", url(at), "--site", "edge")
    without = place.start(place.folder / "agents", "agent", *options)
    assert without.wait() == 1
    assert "--token-file FILE, or MILLRACE_TOKEN_FILE" in without.said
    place.environment["MILLRACE_TOKEN_FILE"] = str(place.token("edge"))
    agent = place.start(place.folder / "agents", "agent", *options)
    agent.await_said("the coordinator answers")


def test_a_coordinator_whose_time_is_over_is_not_obeyed(place: Town) -> None:
    """One on a copy of an old state, at the same address: it knows nothing of the third job."""
    at = port()
    place.up(port=at).kill()
    shutil.copytree(place.folder / "home", place.folder / "old")
    place.up(port=at).kill()
    right = place.up(port=at)
    place.token("edge")
    agent = place.agent(url(at))
    place.applied(document("edge", MORE))
    runs = place.runs("edge")
    right.kill()
    tokens_brought_over(place)
    old = place.up("old", port=at)
    agent.await_said("was not obeyed")
    assert "a coordinator of generation 2 was not obeyed: one of generation 3" in agent.said
    until(lambda: _reports(place), 10, lambda: agent.said)
    assert place.runs("edge") == runs
    old.await_said("site edge does not obey")
    old.kill()
    place.up(port=at)
    place.await_running("even", "half", "third")
    assert place.runs("edge") == runs
    assert len(place.effects("start")) == len(runs)
    assert place.effects("stop", "drop") == []


def test_a_restored_state_is_obeyed_when_a_person_says_so(place: Town) -> None:
    """Its orders have lower numbers than those that the agent has followed since the copy."""
    at = port()
    first = place.up(port=at)
    place.token("edge")
    agent = place.agent(url(at))
    place.applied(document("edge"))
    first.kill()
    shutil.copytree(place.folder / "home", place.folder / "copy")
    newer = place.up(port=at)
    for number in (1, 2):
        place.applied(another("edge", number))
    newer.kill()
    newest = place.up(port=at)
    goal = place.folder / "agents" / "agents" / "edge" / "goal.json"
    until(lambda: json.loads(goal.read_text())["generation"] == 3, 20, lambda: agent.said)
    newest.kill()
    shutil.rmtree(place.folder / "home")
    shutil.move(place.folder / "copy", place.folder / "home")
    restored = place.up(port=at)
    way = "millrace up --generation-above 3"
    agent.await_said(way)
    restored.await_said(way)
    assert agent.said.count("was not obeyed") == 1
    with place.client() as client:
        (told,) = [it["detail"] for it in client.journal() if it["about"] == "site edge"]
    assert (told["obeys"], told["generation"], way in told["hint"]) == (3, 2, True)
    restored.kill()
    raised = raised_above(place, 3, at)
    place.await_running()
    until(lambda: place.runs("edge").keys() == {"even", "half"}, 20, lambda: agent.said)
    with place.client() as client:
        (told,) = [it["detail"] for it in client.journal() if it["about"] == "coordinator"]
    assert told == {"generation": 4, "above": 3}
    assert "does not obey" not in raised.said
    place.applied(document("edge", MORE))


def test_a_restored_state_starts_jobs_of_this_machine_when_a_person_says_so(place: Town) -> None:
    """Nobody else hears of the coordinator: the sites' own files know what was started."""
    place.up().kill()
    first = place.up()
    place.applied(document("here"))
    first.kill()
    shutil.copy(state(place), place.folder / "copy.db")
    second = place.up()
    for number in (1, 2):
        place.applied(another("here", number))
    second.kill()
    shutil.copy(place.folder / "copy.db", state(place))
    restored = place.up()
    way = "millrace up --generation-above 3"
    until(lambda: way in hints(place), 20, lambda: restored.said)
    restored.kill()
    raised_above(place, 3)
    place.await_running()


def test_a_later_coordinator_counts_anew(tmp_path: Path) -> None:
    file = tmp_path / "generations.json"
    before = Generations(file, under=2)
    before.claim("q", 5)
    with pytest.raises(OperationFailed, match="later order") as caught:
        before.claim("q", 4)
    assert "--generation-above 2" in caught.value.hint
    for under in (1, 2):
        with pytest.raises(OperationFailed, match="later order"):
            Generations(file, under).claim("q", 3)
    Generations(file, under=3).claim("q", 3)
    Generations(file, under=3).claim("q", 4)
    with pytest.raises(OperationFailed, match="later order"):
        Generations(file, under=3).claim("q", 3)
    Generations(file, under=2).claim("q", 6)  # what comes late is lower
    with pytest.raises(OperationFailed, match="later order"):
        Generations(file, under=3).claim("q", 5)


def another(site: str, number: int) -> dict[str, Any]:
    """The pipeline with another job of the name `even`, which is started anew."""
    found = document(site)
    found["jobs"]["even"]["sql"] = f"SELECT n + {number} AS n FROM raw"  # noqa: S608
    return found


def state(place: Town) -> Path:
    return place.folder / "home" / "coordinator" / "state.db"


def hints(place: Town) -> str:
    with place.client() as client:
        return " ".join(str(job) for job in client.jobs("roads"))


def raised_above(place: Town, generation: int, at: int = 0) -> Forked:
    options = ("--listen", f"127.0.0.1:{at}", "--generation-above", str(generation))
    made = place.start(place.folder / "home", "up", *options)
    made.await_said("the coordinator is up")
    return made


def tokens_brought_over(place: Town) -> None:
    """Let the old state know the agent's token, so that it can be told something at all."""
    old, new = (place.folder / name / "coordinator" / "state.db" for name in ("old", "home"))
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("ATTACH ? AS new", (str(new),))
        connection.execute(
            "INSERT OR REPLACE INTO documents SELECT * FROM new.documents WHERE kind = 'token'"
        )
        connection.commit()


def _reports(place: Town) -> bool:
    with place.client("old") as client:
        return bool(client.site("edge")["state"] == "up")


@pytest.fixture
def proxied(place: Town) -> Iterator[Between]:
    """Give what lies between a coordinator and an agent with two jobs."""
    at = port()
    place.up(port=at)
    place.token("edge")
    with between(at) as made:
        place.agent(made.url)
        place.applied(document("edge"))
        yield made
        for process in place.processes:  # before what they talk through
            process.kill()


def test_an_agent_that_is_cut_off_goes_on(place: Town, proxied: Between) -> None:
    runs, agent = place.runs("edge"), place.processes[1]
    proxied.cut = True
    agent.await_said("the site is kept as last told", 20)
    until(lambda: site(place)["state"] == "away", 20, lambda: site(place))
    until(lambda: silence(place) >= CUT_SECONDS, 20 + CUT_SECONDS, lambda: site(place))
    assert place.runs("edge") == runs
    proxied.cut = False
    until(lambda: site(place)["state"] == "up", 20, lambda: agent.said)
    place.await_running()
    assert place.runs("edge") == runs
    assert sorted(place.effects("start", "stop")) == EDGE
    assert agent.said.count("the coordinator answers") >= 2


def test_a_change_waits_for_an_agent_that_is_cut_off(place: Town, proxied: Between) -> None:
    runs = place.runs("edge")
    proxied.cut = True
    until(lambda: site(place)["state"] == "away", 20, lambda: site(place))
    with place.client() as client:
        begun = client.apply(document("edge", MORE))["id"]
        assert not client.operation(begun, wait=1)["over"]
        proxied.cut = False
        assert client.wait(begun, 30)["state"] == "done"
    assert {name: place.runs("edge")[name] for name in runs} == runs


def test_a_connection_that_is_half_open_is_found_and_made_anew(
    place: Town, proxied: Between
) -> None:
    """Nothing ends, nothing comes: both ways to the coordinator notice it by themselves."""
    runs, made = place.runs("edge"), proxied.made
    proxied.freeze()
    frozen = time.monotonic()
    with place.client() as client:
        begun = client.apply(document("edge", MORE))["id"]
        assert client.wait(begun, 40)["state"] == "done"
    assert time.monotonic() - frozen < 20
    assert proxied.made >= made + 2
    until(lambda: site(place)["state"] == "up", 20, lambda: site(place))
    assert {name: place.runs("edge")[name] for name in runs} == runs


def test_a_coordinator_that_stands_still_changes_nothing(place: Town) -> None:
    at = port()
    up = place.up(port=at)
    place.token("edge")
    agent = place.agent(url(at))
    place.applied(document("edge"))
    runs = place.runs("edge")
    up.signal(signal.SIGSTOP)
    agent.await_said("the site is kept as last told", 20)
    assert place.runs("edge") == runs
    up.signal(signal.SIGCONT)
    until(lambda: agent.said.count("the coordinator answers") >= 2, 20, lambda: agent.said)
    place.await_running()
    assert place.runs("edge") == runs
    assert sorted(place.effects("start", "stop")) == EDGE


def test_what_an_agent_was_told_last_can_be_read_by_its_owner_only(place: Town) -> None:
    at = port()
    place.up(port=at)
    place.token("edge")
    place.agent(url(at))
    place.applied(document("edge"))
    file = place.folder / "agents" / "agents" / "edge" / "goal.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["generation"] == SiteGoal(1).generation
