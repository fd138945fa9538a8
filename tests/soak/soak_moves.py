"""Road traffic on three edges and a cloud, moved to the cloud alone by another file of sites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.coordinator.revision import Submission
from millrace.model.pipeline import Pipeline
from millrace.ports import Log
from millrace.spec import load
from millrace.stores.archive import pack
from tests.changes.stage import LIMIT, Stage, stage
from tests.examples.parts import FOLDER, part

SEED, SECONDS, PER_SECOND = 7, 6.0, 300.0
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as found:
        yield found


def traffic(profile: str) -> Pipeline:
    return load(FOLDER / "pipeline.yaml", profile=profile).required()


def applied(sites: Stage, wanted: Pipeline) -> None:
    code = sites.station.artifacts.put([pack(FOLDER)])
    begun = sites.station.apply(Submission(wanted, code=code, state_loss=True))
    sites.until(lambda: sites.station.operation(begun.id).over, LIMIT)
    done = sites.station.operation(begun.id)
    assert done.state == "done", done


def count(log: Log, stream: str) -> int:
    return sum(span.end for span in log.ends(stream).values())


def test_all_that_passes_arrives_though_the_edges_go(sites: Stage) -> None:
    """The global windows go on in the middle: they are as plain Python has them."""
    demo, drive, expected, vehicles = map(part, ("demo", "drive", "expected", "vehicles"))
    fog, cloud = traffic("fog"), traffic("cloud")
    applied(sites, fog)
    assert {job.site for job in sites.station.jobs("road-traffic")} == {
        *("north", "west", "south", "cloud")
    }
    made = vehicles.records(SEED, vehicles.SENSORS, SECONDS, PER_SECOND)
    wanted = expected.expected(made)
    good, malformed = sum(wanted.used.values()), sum(wanted.malformed.values())
    slices = list(drive.slices(SEED, SECONDS, PER_SECOND, vehicles.SENSORS, 2.0))
    merged, passed = sites.log(cloud, "merged"), 0
    half = len(slices) // 2
    for number, (_, of) in enumerate(slices):
        where = fog if number <= half else cloud
        for sensor, records in of.items():
            sites.log(where, vehicles.stream(sensor)).write(vehicles.stream(sensor), records)
            passings = [expected.read(record.value or b"") for record in records]
            passed += sum(1 for one in passings if one is not None and expected.cleaned(one))
        if number == half:  # while these are on their way
            assert count(merged, "merged") < passed
            applied(sites, cloud)
            assert {job.site for job in sites.station.jobs("road-traffic")} == {"cloud"}
        sites.until(lambda: count(merged, "merged") >= passed, LIMIT)  # noqa: B023 - at once
    assert (passed, count(merged, "merged")) == (good, good)
    assert count(sites.log(cloud, "rejected"), "rejected") == malformed
    for sensor, records in drive.closing(vehicles.SENSORS, SECONDS).items():
        sites.log(cloud, vehicles.stream(sensor)).write(vehicles.stream(sensor), records)
    total = sites.log(cloud, "global")
    sites.until(lambda: count(total, "global") >= len(wanted.total), LIMIT)
    found = demo.rows(total, "global")
    assert expected.differences(found, wanted.total) == []
