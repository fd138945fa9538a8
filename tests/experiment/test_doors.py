"""A Kafka over a link: clients are told the link's address, so all they do passes it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.kafka import AttachedKafka, KafkaLog
from millrace.experiment.doors import Door, DooredKafka, Doors, listeners
from millrace.experiment.links import Carrier, Link, Way, carrying
from millrace.machine import Java
from millrace.machine.process import session_members
from millrace.model.stream import Stream
from millrace.ports import Record

LINK = Link("north-cloud", ("north", "cloud"), 0.05)


def test_each_link_has_a_listener_that_advertises_where_it_begins() -> None:
    doors = (Door("north", 11, "127.0.0.1:21"), Door("west", 12, "127.0.0.1:22"))
    assert listeners(1, 2, doors) == {
        "listeners": "CLIENTS://127.0.0.1:1,CONTROLLER://127.0.0.1:2,"
        "LINK0://127.0.0.1:11,LINK1://127.0.0.1:12",
        "advertised.listeners": "CLIENTS://127.0.0.1:1,LINK0://127.0.0.1:21,LINK1://127.0.0.1:22",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "LINK0:PLAINTEXT,LINK1:PLAINTEXT",
    }


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with carrying(Way.PROXY, tmp_path_factory.mktemp("links") / "links.log") as carrier:
        yield Doors([LINK], carrier)


@pytest.fixture(scope="module")
def cloud(
    doors: Doors, tmp_path_factory: pytest.TempPathFactory, java: Java, jars: Path
) -> Iterator[DooredKafka]:
    place = tmp_path_factory.mktemp("kafka")
    broker = DooredKafka(place, java, jars, doors.of("cloud"))
    broker.start()
    pid = broker.pid
    assert pid is not None
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(place)
        assert session_members(pid) == []


def test_sites_without_a_link_are_near(doors: Doors) -> None:
    assert doors.of("moon") == ()
    assert doors.address("moon", "cloud", "direct") == "direct"
    assert doors.seen_from("north", {"cloud": "direct", "moon": "there"}) == {
        "cloud": doors.of("cloud")[0].address,
        "moon": "there",
    }


def test_records_pass_over_the_link(doors: Doors, cloud: DooredKafka) -> None:
    cloud.ensure(Stream(name="t", site="cloud", partitions=1))
    direct = cloud.status().address
    over = doors.address("north", "cloud", direct)
    assert over != direct
    carrier: Carrier = doors.carrier
    near, far = KafkaLog({"bootstrap.servers": direct}), KafkaLog({"bootstrap.servers": over})
    before = carrier.carried(LINK.name)
    assert near.write("t", [Record(b"x" * 1000)]) == 1
    assert carrier.carried(LINK.name) == before
    assert far.write("t", [Record(b"y" * 5000) for _ in range(20)]) == 20
    assert carrier.carried(LINK.name)[0] - before[0] > 100_000
    assert [r.value for r in far.read("t", {0: 0}, {0: 2})] == [b"x" * 1000, b"y" * 5000]
    assert carrier.carried(LINK.name)[1] - before[1] > 6_000


def test_what_asks_over_the_link_waits_for_it(doors: Doors, cloud: DooredKafka) -> None:
    over = doors.address("north", "cloud", cloud.status().address)
    began = time.perf_counter()
    AttachedKafka({"bootstrap.servers": over}).start()
    assert time.perf_counter() - began > 2 * LINK.latency * 2  # a handshake, a question
