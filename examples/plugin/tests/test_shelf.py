"""The shelf claims what a log can do; and what only files need is tested beside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from millrace.errors import OperationFailed
from millrace.model import Stream
from millrace.model.quantity import Size
from millrace.ports import Broker, BrokerOrder, Log, Record, Span
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.log import LogConformance

from millrace_shelf.plugin import SHELF

WRITER = """
import sys
from millrace.ports import Record
from millrace_shelf.plugin import SHELF

log = SHELF.log({"address": sys.argv[1]})
for turn in range(20):
    some = range(turn * 10, turn * 10 + 10)
    log.write("many", (Record(b"%d" % n, sys.argv[2].encode()) for n in some))
"""


@pytest.fixture
def order(tmp_path: Path) -> BrokerOrder:
    return BrokerOrder("here", tmp_path / "site", tmp_path / "cache")


@pytest.fixture
def broker(order: BrokerOrder) -> Broker:
    shelf = SHELF.broker(order)
    shelf.start()
    return shelf


class TestShelf(BrokerConformance, LogConformance):
    CLAIMS = frozenset(
        {"start", "ensure", "drop", "partitions", "max_record", "clients"}
        | {"records", "order", "positions", "waiting", "times", "missing"}
    )
    EXCUSES: ClassVar[Mapping[str, str]] = {
        "retention": "all records are kept",
        "compact": "all records are kept",
    }

    @pytest.fixture
    def elsewhere(self, broker: Broker) -> Log:
        return SHELF.log(broker.status().clients["shelf"])


def test_it_is_reached_by_its_address_while_it_serves(broker: Broker, order: BrokerOrder) -> None:
    address = SHELF.address(order.place)
    assert address == broker.status().address
    broker.ensure(Stream("s"))
    other = SHELF.broker(BrokerOrder("there", order.place / "x", order.cache, address))
    other.start()
    assert other.status().streams.keys() == {"s"}
    broker.stop()
    assert not broker.status().up
    assert SHELF.address(order.place) is None
    broker.start()
    assert broker.status().streams.keys() == {"s"}


def test_what_is_not_there_or_not_known_is_told(order: BrokerOrder) -> None:
    with pytest.raises(OperationFailed, match="there is no shelf at"):
        SHELF.broker(BrokerOrder("here", order.place, order.cache, "file:///no/where")).start()
    with pytest.raises(OperationFailed, match=r"sites\.here\.broker\.options\.colour"):
        SHELF.broker(BrokerOrder("here", order.place, order.cache, options={"colour": "red"}))


@pytest.mark.parametrize("wish", [{"compact": True}, {"retention": Size(1000)}])
def test_what_a_shelf_can_not_do_is_refused(broker: Broker, wish: dict[str, object]) -> None:
    with pytest.raises(OperationFailed) as caught:
        broker.ensure(Stream("good"), Stream("bad", **wish))  # type: ignore[arg-type]
    assert next(iter(wish)) in caught.value.hint
    assert broker.status().streams == {}


def test_several_processes_write_at_once(broker: Broker) -> None:
    """Nothing is lost, nothing is torn, and each writer's order is kept."""
    broker.ensure(Stream("many", partitions=2))
    address = broker.status().address
    command = [sys.executable, "-c", WRITER, address]
    writers = [subprocess.Popen([*command, f"w{number}"]) for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    ends = {part: span.end for part, span in broker.log.ends("many").items()}
    found: dict[bytes | None, list[int]] = {}
    for record in broker.log.read("many", dict.fromkeys(ends, 0), ends):
        found.setdefault(record.key, []).append(int(record.value or b""))
    assert found == {b"w%d" % number: list(range(200)) for number in range(3)}


def test_what_a_killed_writer_left_is_written_over(broker: Broker) -> None:
    """A line without an entry, and half of an entry, are no records."""
    broker.ensure(Stream("torn"))
    broker.log.write("torn", [Record(b"first")])
    folder = Path(broker.status().address) / "torn.stream"
    with (folder / "0.lines").open("ab") as lines:
        lines.write(b"a line that was never")
    with (folder / "0.index").open("ab") as index:
        index.write(b"half")
    assert broker.log.ends("torn") == {0: Span(0, 1)}
    broker.log.write("torn", [Record(b"second")])
    got = [record.value for record in broker.log.read("torn", {0: 0}, {0: 2})]
    assert got == [b"first", b"second"]


def test_names_are_kept_apart(broker: Broker) -> None:
    names = ["a/b", "a%2Fb", "..", "a b"]
    broker.ensure(*(Stream("s", topic=name) for name in names))
    for name in names:
        broker.log.write(name, [Record(name.encode())])
    assert sorted(broker.status().streams) == sorted(names)
    for name in names:
        assert [r.value for r in broker.log.read(name, {0: 0}, {0: 1})] == [name.encode()]


def test_a_record_that_is_too_large_is_told(broker: Broker) -> None:
    broker.ensure(Stream("small", max_record=Size(10)))
    with pytest.raises(OperationFailed) as caught:
        broker.log.write("small", [Record(b"x" * 11)])
    assert caught.value.code == "too-large"
    assert broker.log.ends("small") == {0: Span(0, 0)}
