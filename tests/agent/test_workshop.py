"""A site on this machine: what its engine is told, and the folders in which queries go on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from millrace.agent.making import Surroundings
from millrace.agent.workshop import SiteWorkshop
from millrace.engines.spark.checkpoint import committed, read_start
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.plan.fuse import as_queries
from millrace.ports import BrokerStatus, Record, Span, StreamStatus, counts_file
from millrace.ports.link import JobGoal
from millrace.spec import load_text
from millrace.spool import SpoolWriter
from millrace.stores.artifacts import Artifacts, LocalDepot
from tests.agent.checkpoints import write_checkpoint

FILE = load_text("""
pipeline: p
sites: {here: {broker: kafka}, there: {broker: kafka}}
streams:
  raw: {site: here, topic: cars, schema: {n: int}, dead_letters: dead}
  dead: {site: there, format: raw}
  mid: {site: here, transient: true}
  out: {site: here}
jobs:
  a: {site: here, from: raw, to: mid, sql: SELECT n FROM raw}
  b: {site: here, from: mid, to: out, sql: SELECT n FROM mid}
""").required()
FIRST = JobGoal(1, 1, 1)
AROUND = Surroundings({"there": "there:9092"})


class Kafka:
    """A broker of which its clients, partitions and ends are asked for."""

    def status(self, *, whole: bool) -> BrokerStatus:
        assert not whole
        clients = {"java": {"of": "java"}, "librdkafka": {"of": "librdkafka"}}
        return BrokerStatus(up=True, clients=clients, streams={"cars": StreamStatus(7)})

    @property
    def log(self) -> Kafka:
        return self

    def ends(self, stream: str) -> dict[int, Span]:
        return {0: Span(0, len(stream)), 1: Span(4, 4)}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteWorkshop:
    depot = LocalDepot(Artifacts(tmp_path / "artifacts"))
    folders = Folders(tmp_path / "home", tmp_path)
    made = SiteWorkshop("p", "here", folders, lambda: None, depot, code=tmp_path)
    monkeypatch.setattr("millrace.agent.workshop.broker_of", lambda *_: Kafka())
    return made


def folder(shop: SiteWorkshop, number: int) -> Path:
    """The folder of the only query."""
    return shop.folder(as_queries(FILE).jobs["a"], number)


def test_an_order_has_all_that_a_query_needs(shop: SiteWorkshop, tmp_path: Path) -> None:
    order = shop.order(FILE, "a", FIRST, AROUND)
    assert (order.job.name, [job.name for job in order.jobs]) == ("a", ["a", "b"])
    assert order.inside == {"mid"}
    assert order.brokers == {"here": {"of": "java"}, "there": {"of": "java"}}
    assert order.writers == {"here": {"of": "librdkafka"}, "there": {"of": "librdkafka"}}
    assert order.place == folder(shop, 1)
    assert order.code == tmp_path
    assert order.pipeline.streams["raw"].partitions == 7, "as many as there are"
    assert not order.place.exists(), "it begins with nothing"


def test_what_is_only_looked_at_needs_no_broker_and_touches_no_folder(shop: SiteWorkshop) -> None:
    order = shop.order(FILE, "a", None, Surroundings())
    assert order.place != folder(shop, FIRST.folder)
    assert "there" in order.brokers
    assert not order.place.exists()


def test_what_is_only_looked_at_is_as_it_will_start_where_brokers_serve(shop: SiteWorkshop) -> None:
    looked, started = (shop.order(FILE, "a", goal, AROUND) for goal in (None, FIRST))
    assert (looked.brokers, looked.writers) == (started.brokers, started.writers)
    assert looked.place != started.place


def test_what_was_received_for_a_query_ends_where_its_spool_does(shop: SiteWorkshop) -> None:
    file = load_text("""
pipeline: p
sites: {here: {broker: mqtt}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs: {a: {from: raw, to: out, sql: SELECT n FROM raw}}
""").required()
    assert shop.ends(file, "raw", AROUND) == {}
    assert shop.ends(file, "raw", AROUND, "a") == {0: 0}
    spool = folder(shop, 0).parent / "spools" / "raw"
    with closing(SpoolWriter(spool)) as writer:
        writer.append([Record(b"1"), Record(b"2")])
        writer.commit()
    assert shop.ends(file, "raw", AROUND, "a") == {0: 2}


def test_a_site_that_was_not_heard_of_is_waited_for(shop: SiteWorkshop) -> None:
    with pytest.raises(OperationFailed) as caught:
        shop.order(FILE, "a", FIRST, Surroundings())
    assert (caught.value.code, caught.value.transient) == ("no-site", True)


def test_a_new_folder_says_where_to_begin(shop: SiteWorkshop) -> None:
    begins = {"cars": {0: 7, 1: 2}}
    place = shop.order(FILE, "a", JobGoal(1, 1, 2, begins=begins, since=1_000_000), AROUND).place
    assert read_start(place) == begins
    start = committed(place / "checkpoint")
    assert (start.batch, start.at, start.positions) == (-1, 1_000_000, begins)


def test_a_folder_that_is_there_is_gone_on_in(shop: SiteWorkshop) -> None:
    """Also by a goal that says where it began once."""
    place = folder(shop, 2)
    write_checkpoint(place, {"cars": {0: 9}})
    shop.order(FILE, "a", JobGoal(1, 1, 2, begins={"cars": {0: 7}}), AROUND)
    assert read_start(place) == {}
    assert committed(place / "checkpoint").positions == {"cars": {0: 9}}


def test_what_is_brought_is_waited_for_and_opened(shop: SiteWorkshop) -> None:
    write_checkpoint(folder(shop, 1), {"cars": {0: 9}})
    goal = JobGoal(1, 1, 2, brought=("there", 1))
    with pytest.raises(OperationFailed) as caught:
        shop.order(FILE, "a", goal, AROUND)
    assert (caught.value.code, caught.value.transient) == ("no-parcel", True)
    parcel = shop.parcel("a", 1)
    place = shop.order(FILE, "a", goal, Surroundings(AROUND.brokers, None, parcel)).place
    assert place == folder(shop, 2)
    assert committed(place / "checkpoint").positions == {"cars": {0: 9}}


def test_what_was_received_for_a_query_goes_with_it(shop: SiteWorkshop) -> None:
    """It lies beside the folders of a query; what its receiver was told stays where it is."""
    place = folder(shop, 1)
    write_checkpoint(place, {"cars": {0: 9}})
    spool = place.parent / "spools" / "raw"
    spool.mkdir(parents=True)
    (spool / "0.segment").write_bytes(b"unread")
    (spool.parent / "raw.private").write_text("a password")
    parcel = shop.parcel("a", 1)
    assert not (place / "spools").exists()
    (spool / "0.segment").write_bytes(b"of a time before")
    goal = JobGoal(1, 1, 2, brought=("there", 1))
    brought = shop.order(FILE, "a", goal, Surroundings(AROUND.brokers, None, parcel)).place
    assert (spool / "0.segment").read_bytes() == b"unread"
    assert not (brought / "spools").exists()
    assert not (spool.parent / "raw.private").exists()


def test_how_far_a_query_was_is_read_by_the_names_of_its_file(shop: SiteWorkshop) -> None:
    write_checkpoint(folder(shop, 1), {"cars": {0: 9}, "of-another-file": {0: 1}})
    found: Any = shop.progress(FILE, "a", FIRST)["a"]
    assert (found.positions, found.at) == ({"raw": {0: 9}}, 1000.0)
    assert shop.progress(FILE, "a", JobGoal(1, 1, 5))["a"].positions == {}


def test_ends_leave_out_partitions_that_hold_nothing(shop: SiteWorkshop) -> None:
    assert shop.ends(FILE, "raw", AROUND) == {0: len("cars")}


MQTT = load_text("""
pipeline: p
sites: {here: {broker: mqtt}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs: {a: {from: raw, to: out, sql: SELECT n FROM raw}}
""").required()


def test_what_receivers_counted_is_told_by_its_whole_numbers(shop: SiteWorkshop) -> None:
    with closing(shop):
        assert shop.received(MQTT, "a") == {}
        spool = shop.folder(as_queries(MQTT).jobs["a"], 0).parent / "spools" / "raw"
        spool.mkdir(parents=True)
        file = counts_file(spool)
        file.write_text('{"received": 7, "sessions_lost": 0, "connected_since": 1.5, "on": true}')
        assert shop.received(MQTT, "a") == {"raw": {"received": 7, "sessions_lost": 0}}
        file.write_text("half a fi")
        assert shop.received(MQTT, "a") == {}
        file.write_text("[7]")
        assert shop.received(MQTT, "a") == {"raw": {}}
        assert shop.received(FILE, "a") == {}
