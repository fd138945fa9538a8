"""SpecK's listing 1.1, changed to listing 1.2 while it runs, on Spark with Kafka and with MQTT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.ports import Log, Record
from tests.changes.stage import LIMIT, Stage, stage
from tests.crossing.listings import FIRST, SECOND, composed, results, sent

pytestmark = pytest.mark.timeout(600)
TOTAL = "T-D-total"


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as found:
        yield found


def write(log: Log, topic: str, values: list[bytes]) -> None:
    log.write(topic, [Record(value) for value in values])


def arrived(log: Log) -> Counter[bytes]:
    ends = {part: span.end for part, span in log.ends(TOTAL).items()}
    found = log.read(TOTAL, dict.fromkeys(ends, 0), ends)
    return Counter(record.value or b"" for record in found)


@pytest.mark.parametrize("broker", ["kafka", "mqtt"])
def test_the_second_listing_takes_the_place_of_the_first(sites: Stage, broker: str) -> None:
    """Job A is untouched: it keeps the id that Spark gave it. Results are those of plain Python."""
    first, second = composed(FIRST, broker), composed(SECOND, broker)
    assert sites.apply(first).state == "done"
    log = sites.log(first, "T-D-total-at-h177")
    assert arrived(log) == Counter()
    values = {"T-1": sent("x", range(100)), "T-2": sent("y", range(100))}
    for topic, host in (("T-1", "h39"), ("T-2", "h48")):
        write(sites.log(first, f"{topic}-at-{host}"), topic, values[topic])
    sites.until(lambda: arrived(log).total() >= 200, LIMIT)
    assert arrived(log) == results(FIRST, values)
    run = sites.runs("speck")["A"]
    changed = sites.apply(second)
    assert changed.state == "done", changed
    assert sites.runs("speck")["A"] == run
    log = sites.log(second, "T-D-total-at-h193")
    before = arrived(log)  # of MQTT only what comes from now on
    more = {"T-1": sent("x", range(100, 200))}
    write(sites.log(second, "T-1-at-h39"), "T-1", more["T-1"])
    sites.until(lambda: arrived(log).total() >= before.total() + 100, LIMIT)
    assert arrived(log) - before == results(SECOND, more)
