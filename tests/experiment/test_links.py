"""Links carry what they are asked to: as late, as slow, whole, in order; nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.experiment.links import Carrier, Link, Way, between, carrying
from millrace.experiment.links.lane import QUEUE_SECONDS, Lane
from millrace.machine.process import session_members
from tests.experiment.peers import (
    LIMIT,
    connect,
    echo,
    everything,
    exactly,
    round_trips,
    server,
    sink,
    throughput,
)

MBIT = 1e6 / 8
SITES = ("north", "cloud")
#: Other load of the machine may spoil a measurement, not all of these.
TRIES = 8


def may_have_namespaces() -> bool:
    """Whether links of packets can be made here: root, and a TUN device."""
    return os.geteuid() == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK)


WAYS = [
    Way.PROXY,
    pytest.param(
        Way.NAMESPACES,
        marks=pytest.mark.skipif(not may_have_namespaces(), reason="needs root and /dev/net/tun"),
    ),
]


@pytest.fixture(scope="module", params=WAYS)
def carrier(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Carrier]:
    with carrying(request.param, tmp_path_factory.mktemp("links") / "links.log") as found:
        assert found.way is request.param
        yield found
        assert found.child.alive


@pytest.mark.parametrize("milliseconds", [5.0, 18.6])
def test_a_round_trip_takes_twice_the_latency(carrier: Carrier, milliseconds: float) -> None:
    """Other load of the machine makes some trips slower, and none quicker than it should be."""
    link = Link(f"far-{milliseconds:g}", SITES, milliseconds / 1000)
    wanted, found = 2 * link.latency, list[float]()
    with server(echo) as target:
        near, far = carrier.carry(Link("near", SITES), target), carrier.carry(link, target)
        while not found or (min(found) > wanted * 1.1 + 0.001 and len(found) < TRIES):
            own, took = min(round_trips(near, 25)), min(round_trips(far, 25))
            assert took > wanted - 0.001
            found.append(took - own)
    assert min(found) < wanted * 1.1 + 0.001


def test_connecting_takes_a_round_trip_too(carrier: Carrier) -> None:
    link = Link("handshake", SITES, 0.05)
    with server(echo) as target:
        began = time.perf_counter()
        with connect(carrier.carry(link, target)) as client:
            client.sendall(b"?")
            exactly(client, 1)
            took = time.perf_counter() - began
    assert took > 4 * link.latency - 0.002


@pytest.mark.parametrize("rate", [4 * MBIT, 16 * MBIT])
def test_bytes_pass_as_fast_as_the_bandwidth(carrier: Carrier, rate: float) -> None:
    link, found = Link(f"narrow-{rate:.0f}", SITES, 0.005, rate), [0.0]
    with server(sink) as target:
        address = carrier.carry(link, target)
        while max(found) < 0.85 * rate and len(found) <= TRIES:
            found.append(throughput(address, round(rate * 0.8)))
    assert 0.85 * rate < max(found) < 1.05 * rate  # the heads of packets count, too


def test_connections_of_a_link_share_its_bandwidth(carrier: Carrier) -> None:
    rate, size = 16 * MBIT, 1_000_000
    link = Link("shared", SITES, 0.005, rate)
    with server(sink) as target:
        addresses = [carrier.carry(link, target) for _ in range(2)]
        threads = [threading.Thread(target=throughput, args=(a, size)) for a in addresses]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        took = time.perf_counter() - began
    assert took > 0.95 * 2 * size / rate


def test_both_ends_of_a_link_may_have_targets(carrier: Carrier) -> None:
    """What goes to one end shares a lane with the answers of the other, and is told apart."""
    link = Link("two-ended", SITES, 0.01)
    with server(sink) as far, server(sink) as near:
        throughput(carrier.carry(link, far), 999)
        throughput(carrier.carry(link, near, at="north"), 4_999)
    assert carrier.carried(link.name) == (1_000 + 8, 5_000 + 8)


def test_many_connections_at_once(carrier: Carrier) -> None:
    link = Link("many", SITES, 0.01, 80 * MBIT)
    with server(echo) as target:
        address = carrier.carry(link, target)
        clients = [connect(address) for _ in range(60)]
        texts = [f"{number:06}".encode() * 100 for number in range(len(clients))]
        for client, text in zip(clients, texts, strict=True):
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
        assert [everything(client) for client in clients] == texts
        for client in clients:
            client.close()


def test_one_direction_may_end_before_the_other(carrier: Carrier) -> None:
    def last_word(connection: socket.socket) -> None:
        assert everything(connection) == b"all there is"
        connection.sendall(b"thanks")

    link = Link("half", SITES, 0.01)
    with server(last_word) as target, connect(carrier.carry(link, target)) as client:
        client.sendall(b"all there is")
        client.shutdown(socket.SHUT_WR)
        assert everything(client) == b"thanks"


def test_a_link_that_is_cut_holds_all_back_and_loses_nothing(carrier: Carrier) -> None:
    link = Link("torn", SITES, 0.01)
    with server(echo) as target, connect(carrier.carry(link, target)) as client:
        client.sendall(b"before")
        assert exactly(client, 6) == b"before"
        carrier.cut(link.name)
        client.sendall(b"meanwhile")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        carrier.mend(link.name)
        client.settimeout(LIMIT)
        assert exactly(client, 9) == b"meanwhile"


def test_a_slow_reader_slows_its_writer_down(carrier: Carrier) -> None:
    """What nobody reads piles up to a bound, and no further."""
    release = threading.Event()

    def lazy(connection: socket.socket) -> None:
        release.wait(LIMIT)
        sink(connection)

    link, most = Link("lazy", SITES, 0.001), 200_000_000
    with server(lazy) as target, connect(carrier.carry(link, target)) as client:
        client.settimeout(0.5)
        sent = _sent_until_it_blocks(client, most)
        release.set()
        client.settimeout(LIMIT)
        client.shutdown(socket.SHUT_WR)
        assert int.from_bytes(exactly(client, 8), "big") == sent < most


def _sent_until_it_blocks(client: socket.socket, most: int) -> int:
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < most:
            sent += client.send(bytes(65536))
    return sent


def test_a_target_that_is_not_there_ends_the_connection(carrier: Carrier) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{taken.getsockname()[1]}"
        address = carrier.carry(Link("nobody", SITES, 0.001), target)
        with connect(address) as client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_it_is_told_how_much_was_carried(carrier: Carrier) -> None:
    link = Link("counted", SITES, 0.001)
    with server(sink) as target:
        throughput(carrier.carry(link, target), 99_999)
    assert carrier.carried(link.name) == (100_000, 8)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=st.lists(st.binary(min_size=1, max_size=40_000), max_size=8), pause=st.booleans())
def test_bytes_come_as_they_were_sent(
    chunks: list[bytes], pause: bool, echoing: tuple[Carrier, str]
) -> None:
    _, address = echoing
    with connect(address) as client:
        sender = threading.Thread(target=_send, args=(client, chunks, pause))
        sender.start()
        assert everything(client) == b"".join(chunks)
        sender.join(LIMIT)


@pytest.fixture(scope="module")
def echoing(carrier: Carrier) -> Iterator[tuple[Carrier, str]]:
    with server(echo) as target:
        yield carrier, carrier.carry(Link("echo", SITES, 0.002, 200 * MBIT), target)


def _send(client: socket.socket, chunks: list[bytes], pause: bool) -> None:
    for chunk in chunks:
        client.sendall(chunk)
        if pause:
            time.sleep(0.003)
    client.shutdown(socket.SHUT_WR)


def test_nothing_is_left_of_a_link_that_ended(tmp_path: Path) -> None:
    link = Link("short", SITES, 0.001)
    with server(echo) as target:
        with carrying(Way.PROXY, tmp_path / "links.log") as carrier:
            address = carrier.carry(link, target)
            client, session = connect(address), carrier.child.pid
            client.sendall(b"?")
            exactly(client, 1)
        assert client.recv(1) == b""
        client.close()
    assert session_members(session) == []
    with pytest.raises(ConnectionRefusedError):
        connect(address)


@pytest.mark.skipif(not may_have_namespaces(), reason="needs root and /dev/net/tun")
def test_namespaces_go_with_a_process_that_is_killed(tmp_path: Path) -> None:
    def networks() -> set[str]:
        found = set()
        for task in Path("/proc").glob("[0-9]*/task/*/ns/net"):
            try:
                found.add(str(task.readlink()))
            except OSError:
                continue
        return found

    carrier = Carrier(Way.NAMESPACES, tmp_path / "links.log")
    try:
        before = networks()
        carrier.carry(Link("brief", SITES, 0.001), "127.0.0.1:9")
        made = networks() - before
        assert len(made) == 2
        os.kill(carrier.child.pid, signal.SIGKILL)
        carrier.child.process.wait(LIMIT)
        assert not made & networks()
        with pytest.raises(OperationFailed, match="ended"):
            carrier.probe()
    finally:
        carrier.close()


def test_a_proxy_takes_the_place_of_namespaces_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def refuse(self: Carrier) -> None:
        if self.way is Way.NAMESPACES:
            raise OperationFailed("no-link", "a link could not be made: not permitted")

    monkeypatch.setattr(Carrier, "probe", refuse)
    with carrying(Way.NAMESPACES, tmp_path / "links.log", said.append) as carrier:
        assert carrier.way is Way.PROXY
    assert "not permitted" in said[0]


def test_a_proxy_says_that_it_loses_nothing(tmp_path: Path) -> None:
    link = Link("lossy", SITES, loss=0.01)
    with (
        carrying(Way.PROXY, tmp_path / "links.log") as carrier,
        pytest.raises(OperationFailed, match="loses packets"),
    ):
        carrier.carry(link, "127.0.0.1:9")


@given(
    sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=50),
    gaps=st.lists(st.floats(0, 0.5), min_size=50, max_size=50),
    rate=st.none() | st.floats(1e3, 1e9),
)
def test_pieces_leave_a_lane_in_order_and_never_faster_than_it_is(
    sizes: list[int], gaps: list[float], rate: float | None
) -> None:
    lane, now, dues = Lane(0.01, rate), 100.0, []
    for size, gap in zip(sizes, gaps, strict=False):
        now += gap
        dues.append(lane.enter(size, now))
        assert dues[-1] >= now + lane.latency
        assert lane.wait(now) == pytest.approx(max(lane.backlog(now) - QUEUE_SECONDS, 0))
    assert dues == sorted(dues)
    if rate is not None:
        assert dues[-1] - 100.0 - lane.latency >= sum(sizes) / rate * 0.999999


def test_sites_know_their_link_both_ways() -> None:
    links = [Link("a-b", ("a", "b"), 1.0), Link("b-c", ("b", "c"), 2.0)]
    assert between(links, "c", "b") is links[1]
    assert between(links, "a", "c") is None
    assert Link.of(links[0].document()) == links[0]
