"""The same change asked for again and again over a network that loses questions and answers.

With one Idempotency-Key it is made once, however often and wherever a connection breaks.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.client import Client
from millrace.client.settings import Settings
from millrace.coordinator.home import Home
from millrace.machine import Folders
from tests.coordinator.between import Between, Fault, between
from tests.coordinator.town import MORE, Town, document, port, town, until

pytestmark = pytest.mark.timeout(120)
TIMES = 20
#: A client gives up after so long; what it asked goes on.
PATIENCE = 0.5
#: Nothing arrives, some of the head, some of the body; the answer is lost, wholly or in part. Each
#: connection is reset, or nothing more is heard on it.
PLACES = [Fault(there=0), Fault(there=60), Fault(there=600), Fault(back=0), Fault(back=90)]
FAULTS = [Fault(it.there, it.back, held) for held in (False, True) for it in PLACES] * 2


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


def asked(
    way: Between, token: str, wanted: dict[str, Any], key: str, seconds: float = PATIENCE
) -> httpx.Response | None:
    """Ask for a change on a connection of its own; None where no answer comes in time."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
    limits = httpx.Timeout(10, read=seconds)
    with httpx.Client(base_url=way.url, headers=headers, timeout=limits) as client:
        try:
            return client.put("/api/v1/pipelines/roads", json={"document": wanted})
        except httpx.TransportError:
            return None


def token(place: Town) -> str:
    return Home(Folders.of(place.folder / "home")).token.read_text().strip()


def check(place: Town, revisions: int, starts: int = 1) -> None:
    """So many changes were made, each once, and each job was started so often."""
    with place.client() as client:
        assert client.pipeline("roads")["revision"] == revisions
        assert [it["id"] for it in client.operations()] == [
            f"roads.{number}" for number in range(revisions, 0, -1)
        ]
        begun = [it["detail"]["revision"] for it in client.journal() if it["kind"] == "intent"
                 and it["about"] == "pipeline roads"]  # fmt: skip
    assert begun == list(range(1, revisions + 1))
    assert set(Counter(place.effects("start")).values()) == {starts}, place.effects()


def test_a_change_that_is_asked_for_again_and_again_is_made_once(place: Town) -> None:
    """One after another; in the middle of it the coordinator is killed, and another one follows."""
    at = port()
    first = place.up(port=at)
    chance, faults, lost = random.Random(8), list(FAULTS), 0
    chance.shuffle(faults)
    assert len(faults) == TIMES
    with between(at) as way:
        for number, fault in enumerate(faults):
            way.faults.append(fault)
            lost += asked(way, token(place), document("here"), "5b2f") is None
            if number == TIMES // 2:
                place.await_running()
                first.kill()
                place.up(port=at)
                place.await_running()
        assert lost == TIMES
        answer = asked(way, token(place), document("here"), "5b2f", seconds=30)
    assert answer is not None
    assert answer.json()["id"] == "roads.1"
    check(place, 1, starts=2)  # by each coordinator once


def test_a_change_that_many_ask_for_at_once_is_made_once(place: Town) -> None:
    """Each gives up, and asks again with the same key until it is told which operation it is."""
    at = port()
    place.up(port=at)
    place.applied(document("here"))
    gate = threading.Barrier(TIMES)

    def answered(way: Between) -> str:
        gate.wait(20)
        tries, wanted = 1, document("here", MORE)
        while (found := asked(way, secret, wanted, "7c3d", PATIENCE * tries)) is None:
            tries += 1
            assert tries < TIMES
        assert found.status_code in (200, 202), found.text
        return str(found.json()["id"])

    secret = token(place)
    with between(at) as way, ThreadPoolExecutor(TIMES) as pool:
        way.faults += FAULTS
        assert set(pool.map(answered, [way] * TIMES)) == {"roads.2"}
        assert way.made >= 2 * TIMES
    place.await_running("even", "half", "third")
    check(place, 2)


@pytest.mark.parametrize("fault", [Fault(back=0), Fault(there=60)], ids=["answer", "question"])
def test_the_client_asks_again_by_itself(place: Town, fault: Fault) -> None:
    """Without a key of the caller's, too: it has one of its own for each change."""
    at = port()
    place.up(port=at)
    with between(at) as way, Client(Settings(way.url, token(place))) as client:
        way.faults.append(fault)
        begun = client.apply(document("here"))
        assert begun["id"] == "roads.1"
        until(lambda: client.operation("roads.1")["over"], 20, lambda: client.jobs("roads"))
    place.await_running()
    check(place, 1)
