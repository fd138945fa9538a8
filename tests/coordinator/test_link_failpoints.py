"""kill -9 of an agent that joined, at all that it sends and gets: the change ends all the same."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.spec import load_text
from millrace.wire import pipeline_document
from tests.coordinator import linked
from tests.coordinator.forked import Forked
from tests.coordinator.town import Town, port, town, until

pytestmark = pytest.mark.timeout(120)
FILE = """
pipeline: roads
sites: {edge: {broker: kafka}, here: {broker: kafka}}
streams: {raw: {site: here, schema: {n: int, at: timestamp}}}
jobs:
  count: {site: SITE, from: raw, window: {of: SIZE s, by: at}, aggregate: {n: count(*)}}
"""
MOMENTS = ("before", "after")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    monkeypatch.setattr("tests.coordinator.town.faked", linked)
    with town(tmp_path) as made:
        yield made


def document(site: str, size: int = 10) -> dict[str, Any]:
    """A pipeline of a job with state."""
    text = FILE.replace("SITE", site).replace("SIZE", str(size))
    return pipeline_document(load_text(text).required())


def agent(place: Town, url: str, ends: str = "") -> Forked:
    """Start the agent of the edge; with a place at which it ends."""
    place.environment = {"MILLRACE_FAILPOINT": ends} if ends else {}
    return place.agent(url)


def settled(place: Town, operation: str, site: str) -> None:
    """A change comes to its end, and the job runs once, where it shall."""
    with place.client() as client:
        found = client.wait(operation, 30)
    assert found["state"] == "done", found
    other = {"edge": "here", "here": "edge"}[site]
    until(lambda: set(place.runs(site)) == {"count"}, 10, place.effects)
    assert place.runs(other) == {}


def test_an_agent_may_end_at_all_that_it_tells(place: Town) -> None:
    at = port()
    place.up(port=at)
    place.token("edge")
    url = f"http://127.0.0.1:{at}"
    for size, end in enumerate((f"{m}#{n}" for m in MOMENTS for n in (1, 2)), 10):
        with place.client() as client:
            begun = client.apply(document("edge", size), allow_state_loss=True)["id"]
        assert agent(place, url, f"link.tell.{end}").wait() == -signal.SIGKILL, end
        second = agent(place, url)
        settled(place, begun, "edge")
        second.kill()


def moved(place: Town, before: str, after: str, ends: str) -> None:
    """Move the job; the agent ends on the way, and another one follows it."""
    at = port()
    place.up(port=at)
    place.token("edge")
    url = f"http://127.0.0.1:{at}"
    first = agent(place, url, ends)
    place.applied(document(before))
    with place.client() as client:
        begun = client.apply(document(after))["id"]
    assert first.wait() == -signal.SIGKILL
    agent(place, url)
    settled(place, begun, after)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_agent_may_end_while_state_leaves_it(place: Town, moment: str) -> None:
    moved(place, "edge", "here", f"link.send.{moment}#1")


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_agent_may_end_while_state_comes_to_it(place: Town, moment: str) -> None:
    moved(place, "here", "edge", f"link.fetch.{moment}#1")
