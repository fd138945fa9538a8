"""SpecK's own files, on Flinks and Mosquittos of their own: listing 1.1, then 1.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.mqtt import AttachedMqtt
from millrace.machine import Folders, Java
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record
from millrace.spec import load_text
from tests.changes.stage import LIMIT, Stage, stage
from tests.crossing.hosts import Hosts, hosts
from tests.crossing.listings import FIRST, SECOND, results, sent

pytestmark = [pytest.mark.timeout(600), pytest.mark.needs("mosquitto")]
TOTAL = "T-D-total"
PIPELINE = "speck"


@pytest.fixture
def speck(tmp_path: Path, java: Java, folders: Folders) -> Iterator[Hosts]:
    with hosts(tmp_path / "hosts", java, folders.cache) as made:
        made.start(("h39", "h48", "h192", "h177", "h177b"), ("h39", "h48", "h192", "h177", "h193"))
        yield made


@pytest.fixture
def coordinator(tmp_path: Path, speck: Hosts) -> Iterator[Stage]:
    with stage(tmp_path / "coordinator") as found:
        yield found


def composition(speck: Hosts, jobs: dict[str, tuple[str, str, str]]) -> Pipeline:
    return load_text(speck.composition(jobs)).required()


def arrived(log: Log) -> Counter[bytes]:
    ends = {part: span.end for part, span in log.ends(TOTAL).items()}
    return Counter(record.value or b"" for record in log.read(TOTAL, dict.fromkeys(ends, 0), ends))


def send(address: str, topic: str, values: list[bytes]) -> None:
    broker = AttachedMqtt({"address": address})
    broker.log.write(topic, [Record(value) for value in values])
    broker.stop()


def begun(speck: Hosts, host: str) -> dict[str, float]:
    """Flink's own ids of the jobs that run, with when they began."""
    found = speck.flinks[host].rest.jobs().values()
    return {job.id: job.since for job in found if job.state == "RUNNING"}


def test_the_listings_run_and_job_a_is_untouched(speck: Hosts, coordinator: Stage) -> None:
    totals = {host: AttachedMqtt({"address": speck.brokers[host]}) for host in ("h177", "h193")}
    assert [arrived(broker.log) for broker in totals.values()] == [Counter(), Counter()]
    assert coordinator.apply(composition(speck, FIRST)).state == "done"
    values = {"T-1": sent("x", range(100)), "T-2": sent("y", range(100))}
    send(speck.brokers["h39"], "T-1", values["T-1"])
    send(speck.brokers["h48"], "T-2", values["T-2"])
    coordinator.until(lambda: arrived(totals["h177"].log).total() >= 200, LIMIT)
    assert arrived(totals["h177"].log) == results(FIRST, values)
    before = begun(speck, "h39")
    assert len(before) == 1
    refused = coordinator.apply(composition(speck, SECOND))
    assert refused.state == "refused", refused  # whether D keeps state only its program knows
    changed = coordinator.apply(composition(speck, SECOND), state_loss=True)
    assert changed.state == "done", changed
    assert begun(speck, "h39") == before
    assert coordinator.runs(PIPELINE)["A"] in before
    assert [begun(speck, host) for host in ("h48", "h177")] == [{}, {}]
    more = {"T-1": sent("x", range(100, 200))}
    send(speck.brokers["h39"], "T-1", more["T-1"])
    coordinator.until(lambda: arrived(totals["h193"].log).total() >= 100, LIMIT)
    assert arrived(totals["h193"].log) == results(SECOND, more)
    assert arrived(totals["h177"].log) == results(FIRST, values)
