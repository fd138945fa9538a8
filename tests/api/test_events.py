"""The stream of events: nothing missed or twice over a break, and no reader holds it up."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

import httpx
from starlette.types import Message

from millrace.api.desk import Desk
from millrace.api.events import EventStream
from millrace.api.limits import Limits
from millrace.coordinator.tokens import Identity, Role
from millrace.machine.sse import Decoder
from millrace.ports import Change, Entry, EntryKind
from tests.api.house import BASE, House, document, problem, until

Event = tuple[str, str | None, Any]


def read(client: httpx.Client, most: int, **given: Any) -> list[Event]:
    """Read some events, then go."""
    headers = {"Last-Event-ID": given.pop("last")} if "last" in given else {}
    decoder, found = Decoder(), list[Event]()
    with client.stream("GET", f"{BASE}/events", params=given, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for piece in response.iter_raw():
            found += [(kind, key, json.loads(data)) for kind, key, data in decoder.feed(piece)]
            if len(found) >= most:
                break
    return found[:most]


def write(house: House, count: int, size: int = 1) -> None:
    entries = tuple(Entry(EntryKind.EVENT, "test", {"text": "x" * size}) for _ in range(count))
    house.station.coordinator.tenure.commit(Change(entries=entries))
    house.station.bell.ring()


def test_nothing_is_missed_or_twice_over_a_break(house: House, client: httpx.Client) -> None:
    write(house, 700)
    numbers: list[int] = []
    first = read(client, 5, after=0, metrics=0)
    numbers += [event[2]["number"] for event in first]
    while len(numbers) < 700:
        write(house, 137)
        more = read(client, 137, last=str(numbers[-1]), after=0, metrics=0)
        assert all(kind == "journal" and key == str(it["number"]) for kind, key, it in more)
        numbers += [event[2]["number"] for event in more]
    assert numbers == list(range(1, len(numbers) + 1))


def test_without_a_number_it_begins_now(house: House, client: httpx.Client) -> None:
    write(house, 10)
    with client.stream("GET", f"{BASE}/events", params={"metrics": 0}) as response:
        pieces = response.iter_raw()
        assert next(pieces) == b": here\n\n"
        begun = time.monotonic()
        house.apply(client, document())
        decoder, found = Decoder(), list[Any]()
        while not found:
            found = list(decoder.feed(next(pieces)))
        assert time.monotonic() - begun < 5
        assert json.loads(found[0][2])["about"] == "pipeline p"


def test_numbers_come_in_between(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document(jobs=2)))
    events = read(client, 3, metrics=0.2)
    assert {kind for kind, _, _ in events} == {"metrics"}
    assert {key for _, key, _ in events} == {None}
    job = events[-1][2]["jobs"][0]
    assert job.keys() == {"pipeline", "name", "state", "rows_per_second", "lag", "batch"}
    assert job["state"] == "running"


def test_a_quiet_stream_shows_that_it_is_there(house: House) -> None:
    with (
        house.client(limits=Limits(alive_seconds=0.1)) as client,
        client.stream("GET", f"{BASE}/events", params={"metrics": 0}) as response,
    ):
        pieces = response.iter_raw()
        assert [next(pieces) for _ in range(3)] == [b": here\n\n"] * 3


def test_a_stream_ends_with_its_token(house: House, client: httpx.Client) -> None:
    headers = house.auth(Role.VIEWER)
    identity = headers["Authorization"].split("_")[1]
    with client.stream("GET", f"{BASE}/events", params={"metrics": 0}, headers=headers) as response:
        client.delete(f"{BASE}/tokens/{identity}")
        response.read()
    problem(client.get(f"{BASE}/events", headers=headers), 401)


def test_who_waits_is_counted(house: House) -> None:
    with house.client(limits=Limits(waits=2)) as client:
        first = client.stream("GET", f"{BASE}/events")
        second = client.stream("GET", f"{BASE}/events")
        with first:
            with second:
                answer = client.get(f"{BASE}/events")
                problem(answer, 429, "too-many-waits")
                assert answer.headers["retry-after"]
                assert client.get(f"{BASE}/pipelines").status_code == 200
            until(lambda: client.get(f"{BASE}/operations/p.1").status_code == 404)


def test_last_event_id_is_a_number(client: httpx.Client) -> None:
    for text in ("x", "-1", "9" * 30, "1.5"):
        answer = client.get(f"{BASE}/events", headers={"Last-Event-ID": text})
        problem(answer, 400, "bad-header")


def test_who_does_not_read_is_dropped(house: House) -> None:
    write(house, 4000, size=8_000)
    with house.served(Limits(slow_seconds=0.3)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(20)
            raw.connect((host, int(port)))
            token = house.auth()["Authorization"]
            head = (
                f"GET {BASE}/events?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n"
            )
            raw.sendall(head.encode())
            time.sleep(1.5)
            size = 0
            try:
                while piece := raw.recv(1 << 16):
                    size += len(piece)
            except ConnectionResetError:
                pass
            assert size < 4000 * 8_000


def test_a_reader_that_stands_still_is_cut_off(house: House) -> None:
    cut: list[bool] = []

    async def serve() -> None:
        async def receive() -> Message:
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.sleep(60)

        desk = Desk.of(house.station, Limits(slow_seconds=0.05))
        stream = EventStream(desk, Identity("a", "a", Role.VIEWER), 0, 0.0)
        scope = {"type": "http", "state": {"abort": lambda: cut.append(True)}}
        await asyncio.wait_for(stream(scope, receive, send), 5)

    asyncio.run(serve())
    assert cut == [True]
