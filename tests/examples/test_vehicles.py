from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from millrace.ports import Record, Span
from millrace.spec import load
from tests.examples.parts import FOLDER, PIPELINE, part

vehicles, expected, drive = part("vehicles"), part("expected"), part("drive")
SEED, SECONDS, RATE = 3, 60, 500


def at_of(value: bytes) -> float | None:
    passing = expected.read(value)
    return None if passing is None or passing.at is None else passing.at / 1000


def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    first = vehicles.timeline(SEED, SECONDS, RATE)
    assert first == vehicles.timeline(SEED, SECONDS, RATE)
    assert first != vehicles.timeline(SEED + 1, SECONDS, RATE)
    assert len(first) == SECONDS * RATE


def test_the_timeline_is_in_order_of_sending_and_holds_the_records_of_each_sensor() -> None:
    sent = vehicles.timeline(SEED, SECONDS, RATE)
    offsets = [offset for offset, *_ in sent]
    assert offsets == sorted(offsets)
    assert 0 <= offsets[0] <= offsets[-1] <= SECONDS
    made = vehicles.records(SEED, vehicles.SENSORS, SECONDS, RATE)
    for sensor, stored in made.items():
        assert [(key, value) for _, key, value in stored] == [
            (key, value) for _, where, key, value in sent if where == sensor
        ]
        assert {number for number, _, _ in stored} == set(range(vehicles.PARTITIONS))


def test_mistakes_and_disorder_have_the_measure_that_is_said() -> None:
    sent = vehicles.timeline(SEED, SECONDS, RATE)
    passings = [expected.read(value) for *_, value in sent]
    known = [passing for passing in passings if passing is not None]
    assert (len(sent) - len(known)) / len(sent) == pytest.approx(0.01, abs=0.003)
    erroneous = sum(not expected.cleaned(passing) for passing in known)
    assert erroneous / len(sent) == pytest.approx(0.01, abs=0.003)
    start = vehicles.START.timestamp()
    delays = [
        offset - (at - start) for offset, *_, value in sent if (at := at_of(value)) is not None
    ]
    assert sum(delay > 0.1 for delay in delays) / len(delays) == pytest.approx(0.10, abs=0.01)
    assert min(delays) >= -0.001
    assert 1.5 < max(delays) < 2.01  # the local windows allow 5 s


def test_every_kind_of_mistake_is_made() -> None:
    sent = [value for *_, value in vehicles.timeline(SEED, SECONDS, RATE)]
    wrong = {value for value in sent if (p := expected.read(value)) is None or p.vehicle is None}
    assert {b"null", b"{}"} <= wrong
    for kind in (b'"fast"', b'"yesterday"', b'"vehicle": null', b'{"speed"', b"\xff"):
        assert any(kind in value for value in wrong), kind
    assert any(value.startswith(b'{"') and not value.endswith(b"}") for value in wrong)
    speeds = [passing.speed for value in sent if (passing := expected.read(value)) is not None]
    known = [speed for speed in speeds if speed is not None]
    assert min(known) < 0
    assert max(known) > vehicles.LIMIT


def test_closing_records_reach_every_partition_and_close_every_window() -> None:
    made = vehicles.closing(vehicles.SENSORS, SECONDS)
    assert set(made) == set(vehicles.SENSORS)
    for stored in made.values():
        for count in (vehicles.PARTITIONS, vehicles.WIDEST):
            assert {vehicles.partition(key, count) for _, key, _ in stored} == set(range(count))
        moments = {at_of(value) for _, _, value in stored}
        assert moments == {vehicles.START.timestamp() + SECONDS + 3600}
        assert all(json.loads(value)["vehicle"].encode() == key for _, key, value in stored)


def test_the_programs_agree_with_the_pipeline_file() -> None:
    pipeline = load(PIPELINE).required()
    by_edge: dict[str, set[str]] = {}
    for job in pipeline.jobs.values():
        if job.name.startswith("clean-"):
            edge = job.outputs[0].stream.removeprefix("clean-")
            by_edge.setdefault(edge, set()).add(job.name.removeprefix("clean-"))
            assert job.sql is not None
            assert job.sql.endswith(f"BETWEEN 0 AND {expected.LIMIT}")
    assert by_edge == {edge: set(sensors) for edge, sensors in expected.EDGES.items()}
    assert {name for names in by_edge.values() for name in names} == set(vehicles.SENSORS)
    assert {pipeline.streams[vehicles.stream(s)].partitions for s in vehicles.SENSORS} == {
        vehicles.PARTITIONS
    }
    assert pipeline.streams["merged"].partitions == vehicles.WIDEST
    for stream in pipeline.streams.values():  # a key is made of columns that are there
        assert set(stream.key) <= set(stream.schema or ()), stream.name


def test_differences_tells_what_is_missing_wrong_twice_and_too_much() -> None:
    rows = [{"start": f"2026-01-05T08:0{n}:00.000Z", "vehicles": n, "speed": 1.0} for n in range(4)]
    assert expected.differences(reversed(rows), rows) == []
    near = [{**row, "start": str(row["start"]).replace(".000Z", "+00:00")} for row in rows]
    assert expected.differences([{**row, "speed": 1.001} for row in near], rows) == []
    assert len(expected.differences(rows[1:], rows)) == 1
    assert len(expected.differences(rows, rows[1:])) == 1
    assert len(expected.differences([*rows, rows[2]], rows)) == 1
    assert len(expected.differences([{**rows[0], "speed": 1.01}, *rows[1:]], rows)) == 1
    assert len(expected.differences([{**rows[0], "vehicles": 9}, *rows[1:]], rows)) == 1
    assert len(expected.differences([{**rows[0], "speed": float("nan")}, *rows[1:]], rows)) == 1


class Memory:
    """A log in memory that notes in which order records came, over all streams."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Record]] = []

    def write(self, stream: str, records: Iterable[Record]) -> int:
        new = [(stream, record) for record in records]
        self.written += new
        return len(new)

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        raise NotImplementedError

    def ends(self, stream: str) -> Mapping[int, Span]:
        raise NotImplementedError

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        raise NotImplementedError

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        raise NotImplementedError


@pytest.mark.parametrize("lockstep", [False, True])
def test_the_driver_sends_all_in_time_order_and_closes_when_settled(lockstep: bool) -> None:
    log, asked = Memory(), list[int]()

    def settled() -> bool:
        asked.append(len(log.written))
        return len(asked) > 1

    count = drive.drive(
        lambda _: log, SEED, 10, 100, None, settled=settled, limit=5, lockstep=lockstep
    )
    made = vehicles.records(SEED, vehicles.SENSORS, 10, 100)
    closing = vehicles.closing(vehicles.SENSORS, 10)
    assert count == len(log.written) == 1000 + 60
    assert asked[-1] == 1000  # the closing records came after the last question
    assert len(asked) == (7 if lockstep else 2)
    for sensor in vehicles.SENSORS:
        found = [record.value for name, record in log.written if name == f"raw-{sensor}"]
        assert found == [value for *_, value in made[sensor] + closing[sensor]]
    newest = 0.0
    for _, record in log.written[:1000]:
        at = at_of(record.value or b"")
        assert at is None or at > newest - 4.01  # a slice of 2 s and a delay of 2 s
        newest = max(newest, at or 0.0)


def test_the_driver_keeps_the_pace_and_gives_up_on_what_never_settles() -> None:
    log = Memory()
    begun = datetime.now().timestamp()
    with pytest.raises(TimeoutError, match=r"after 0\.1 s"):
        drive.drive(lambda _: log, SEED, 4, 50, 4.0, settled=lambda: False, limit=0.1)
    assert 1.0 <= datetime.now().timestamp() - begun < 10
    assert len(log.written) == 200


def test_the_programs_write_files_that_fit_together(tmp_path: Path) -> None:
    chosen = ["--seed", "7", "--seconds", "30", "--per-second", "100", "--out"]
    for program, folder in (("vehicles", "in"), ("expected", "out")):
        command = [sys.executable, f"{FOLDER}/{program}.py", *chosen, str(tmp_path / folder)]
        subprocess.run(command, check=True, timeout=60)
    lines = {
        sensor: (tmp_path / "in" / f"raw-{sensor}.jsonl").read_bytes().split(b"\n")[:-1]
        for sensor in vehicles.SENSORS
    }
    made = vehicles.records(7, vehicles.SENSORS, 30, 100)
    assert lines == {sensor: [value for *_, value in stored] for sensor, stored in made.items()}
    assert (tmp_path / "in" / "closing-10.jsonl").read_bytes().count(b"\n") == vehicles.WIDEST
    counts = json.loads((tmp_path / "out" / "counts.json").read_text())
    assert sum(sum(fate.values()) for fate in counts.values()) == 3000
    for name in ("picture.png", "picture.svg"):
        command = [sys.executable, f"{FOLDER}/plot.py", str(tmp_path / "out"), "--out"]
        subprocess.run([*command, str(tmp_path / name)], check=True, timeout=60)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    picture = (tmp_path / "picture.svg").read_text()
    assert "<svg" in picture


def test_a_picture_of_what_has_not_closed_says_so(tmp_path: Path) -> None:
    rows = [{"start": "2026-01-05T08:00:00.000Z", "vehicles": 3, "speed": 90.5}]
    for number, (local, total) in enumerate(((rows, []), ([], rows), ([], []), (rows, rows))):
        part("plot").draw({"north": local}, total, tmp_path / f"{number}.svg")
        assert (tmp_path / f"{number}.svg").read_text().count("no window has closed") == 2 * (
            (not local) + (not total)
        )
