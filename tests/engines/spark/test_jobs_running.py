"""Jobs that run on: modes, malformed records, sizes, headers, planned stops."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.measure.hops import shares
from millrace.model.job import Mode
from millrace.ports import Fates, JobState, Record
from tests.engines.spark.lab import (
    LIMIT,
    Case,
    Lab,
    balanced,
    json_record,
    multiset,
    objects,
    wait_until,
)

pytestmark = [pytest.mark.xdist_group("spark-running"), pytest.mark.timeout(600)]
CARS = "schema: {car: string, speed: double, at: timestamp}"
BAD = [b"\xff garbage", b'{"car": "x", "speed": "fast"}', b"", b"[1"]


def cars(count: int) -> list[Record]:
    """Good records, minute by minute, with a bad one among each ten."""
    found = []
    for number in range(count):
        key = f"k{number}".encode()
        if number % 10 == 3:
            found.append(Record(BAD[number // 10 % len(BAD)], key))
            continue
        row = {
            "car": f"c{number % 3}",
            "speed": float(number),
            "at": f"2026-01-01T00:{number:02}:00Z",
        }
        found.append(Record(json.dumps(row).encode(), key))
    return found


KINDS = {
    "sql": 'sql: "SELECT car, speed FROM raw WHERE speed >= 10"',
    "python": 'python: "code:frame"',
    "udf": 'python: "code:udf"',
    "map": 'map: "code:record"',
    "window": "window: {of: 10 min, by: at, lateness: 0 s}, "
    'sql: "SELECT window.start AS start, count(*) AS n FROM raw GROUP BY window"',
}
CODE = """
from pyspark.sql import functions as F

def frame(raw):
    return raw.where("speed >= 10").select("car", "speed")

def udf(raw):
    double = F.udf(lambda speed: speed * 2, "double")
    return raw.select("car", double("speed").alias("speed"))

def record(record):
    return {"car": record["car"], "speed": record["speed"]} if record["speed"] >= 10 else None
"""
#: Which kinds run in which modes.
MODES = {
    "real-time": ("sql", "python"),
    "micro-batch": tuple(KINDS),
    "drain": tuple(KINDS),
}


def test_malformed_records_in_every_mode_and_kind(lab: Lab) -> None:
    """A dead letter with its cause, its origin and its bytes for each; good ones unharmed."""
    jobs = [(f"{kind}-{mode}", kind, mode) for mode, kinds in MODES.items() for kind in kinds]
    lines = ["defaults: {jobs: {checkpoint: 5 s}}", "streams:"]
    lines += [f"  raw: {{{CARS}, dead_letters: dead, partitions: 2}}", "  dead: {format: raw}"]
    lines += [f"  out-{name}: {{partitions: 2}}" for name, _, _ in jobs] + ["jobs:"]
    lines += [f"  {n}: {{from: raw, to: out-{n}, mode: {mode}, {KINDS[k]}}}" for n, k, mode in jobs]
    with lab.case("\n".join(lines), code=CODE) as case:
        case.send("raw", cars(60))
        case.start()
        letters = case.read("dead", 6 * len(jobs))
        assert len(letters) == 6 * len(jobs)
        source = {(r.partition, r.position): r for r in case.read("raw")}
        for name, kind, _ in jobs:
            fates = case.fates(name, 60)
            assert (fates.read, fates.malformed) == (60, 6), name
            assert balanced(fates), name
            check_letters(name, [x for x in letters if job_of(x) == name], source)
            check_results(case, name, kind, fates)


def job_of(record: Record) -> str:
    origin = record.header("millrace-origin") or b""
    return origin.decode().split(" ")[0].partition("/")[2]


def check_letters(
    job: str, letters: list[Record], source: dict[tuple[int | None, int], Record]
) -> None:
    """Each names the record that it is, holds its bytes and says why."""
    seen = set()
    for letter in letters:
        _, stream, partition, position, _ = (letter.header("millrace-origin") or b"").split(b" ")
        record = source[int(partition), int(position)]
        seen.add((record.partition, record.position))
        assert (stream, letter.key, letter.value) == (b"raw", record.key, record.value), job
        assert (letter.header("millrace-cause") or b"").startswith(b"not json of"), job
    assert len(seen) == len(letters) == 6, job


def check_results(case: Case, name: str, kind: str, fates: Fates) -> None:
    speeds = [float(n) for n in range(60) if n % 10 != 3]
    if kind == "window":
        made = [item["n"] for item in objects(case.read(f"out-{name}", 5))]
        assert made == [9] * 5, name  # the sixth is not closed yet
        return
    found = sorted(item["speed"] for item in objects(case.read(f"out-{name}")))
    wanted = [s * 2 for s in speeds] if kind == "udf" else [s for s in speeds if s >= 10]
    assert found == wanted, name
    assert fates.written == {f"out-{name}": len(wanted)}, name
    if kind != "udf":
        assert (fates.used, fates.filtered) == (45, 9), name


def test_without_a_stream_for_dead_letters_they_are_counted(lab: Lab) -> None:
    kinds = [("sql", "real-time"), ("map", "drain"), ("window", "drain")]
    text = f"defaults: {{jobs: {{checkpoint: 5 s}}}}\nstreams:\n  raw: {{{CARS}}}\n"
    text += "".join(f"  out-{kind}-{mode}: {{}}\n" for kind, mode in kinds) + "jobs:\n"
    text += "".join(
        f"  {kind}-{mode}: {{from: raw, to: out-{kind}-{mode}, mode: {mode}, {KINDS[kind]}}}\n"
        for kind, mode in kinds
    )
    with lab.case(text, code=CODE) as case:
        case.send("raw", cars(60))
        case.start()
        for kind, mode in kinds:
            fates = case.fates(f"{kind}-{mode}", 60)
            assert (fates.read, fates.malformed) == (60, 6), (kind, mode)
            assert balanced(fates), (kind, mode)
            check_results(case, f"{kind}-{mode}", kind, fates)


def test_auto_never_changes_results(lab: Lab) -> None:
    """The same jobs in both modes: with key columns and without, one output and several."""
    outputs = {"alone": "key: car", "keyed": "key: car", "several": "key: [car, speed]", "none": ""}
    modes = ("auto", "micro-batch")
    lines = ["defaults: {jobs: {checkpoint: 5 s}, streams: {partitions: 3}}", "streams:"]
    lines.append(f"  raw: {{{CARS}}}")
    lines += [f"  {name}-{mode}: {{{key}}}" for name, key in outputs.items() for mode in modes]
    lines.append("jobs:")
    for mode in modes:
        ports = ", ".join(f"{{stream: {n}-{mode}, as: {n}}}" for n in outputs if n != "alone")
        lines.append(f"  one-{mode}: {{from: raw, to: alone-{mode}, mode: {mode},")
        lines.append('    sql: "SELECT car, speed, at FROM raw WHERE speed <> 5"}')
        lines.append(f"  split-{mode}: {{from: raw, to: [{ports}], mode: {mode},")
        lines.append('    python: "code:split"}')
    code = """
    def split(raw):
        slow = raw.where("speed < 40").select("speed")
        return {"keyed": raw.where("speed > 30"), "several": raw, "none": slow}
    """
    with lab.case("\n".join(lines), code=code) as case:
        facts = case.examine()
        assert [facts[f"{name}-auto"].mode for name in ("one", "split")] == [Mode.REAL_TIME] * 2
        case.start()
        records = cars(60)
        case.send("raw", [*records[:40], *(Record(r.value) for r in records[40:])])
        for name, count in {"alone": 53, "keyed": 26, "several": 54, "none": 36}.items():
            found = [multiset(case.read(f"{name}-{mode}", count)) for mode in modes]
            assert found[0] == found[1], name
            assert found[0].total() == count, name


def test_the_time_moves_on_with_the_batches_of_a_real_time_job(lab: Lab) -> None:
    """Its plan is optimized once, but not the time in it."""
    with lab.case(
        f"""
        defaults: {{jobs: {{checkpoint: 5 s, mode: real-time}}}}
        streams: {{raw: {{{CARS}}}, out: {{}}}}
        jobs:
          j: {{from: raw, to: out, sql: "SELECT car, unix_millis(now()) AS at FROM raw"}}
        """
    ) as case:
        case.start()
        case.send("raw", [json_record(car="first")])
        case.read("out", 1)
        case.fates("j", 1)
        case.send("raw", [json_record(car="second")])
        times = {row["car"]: row["at"] for row in objects(case.read("out", 2))}
    assert times["second"] - times["first"] > 1000


def test_modes_and_their_reasons(lab: Lab) -> None:
    streams = f"streams: {{raw: {{{CARS}}}, out: {{}}}}\njobs:\n"
    job = "  j: {from: raw, to: out, "
    cases = {
        'sql: "SELECT car FROM raw"': ("real-time", "nothing stands against it"),
        'map: "code:record"': ("micro-batch", "map:"),
        'python: "code:udf"': ("micro-batch", "a Python function"),
        'sql: "SELECT DISTINCT car FROM raw"': ("micro-batch", "DISTINCT"),
        'sql: "SELECT car, count(*) AS n FROM raw GROUP BY car"': ("micro-batch", "emit: final"),
        'emit: updates, sql: "SELECT car, count(*) AS n FROM raw GROUP BY car"': ("real-time", ""),
        'interval: 1 s, sql: "SELECT car FROM raw"': ("micro-batch", "interval: 1 s"),
        'order: preserve, sql: "SELECT car FROM raw"': ("micro-batch", "order: preserve"),
    }
    for text, (mode, reason) in cases.items():
        with lab.case(f"{streams}{job}{text}}}", code=CODE) as case:
            fact = case.examine()["j"]
            assert fact.mode is Mode(mode), text
            assert any(reason in item for item in fact.reasons), (text, fact.reasons)
    impossible = {
        'python: "code:udf"': "a Python function in the query",
        'sql: "SELECT car FROM raw LIMIT 3"': "LIMIT",
        'sql: "SELECT raw.car FROM raw JOIN raw AS r ON raw.car = r.car"': "a join",
    }
    for text, reason in impossible.items():
        with lab.case(f"{streams}{job}mode: real-time, {text}}}", code=CODE) as case:
            failure = case.failure()
            assert (failure.code, failure.transient) == ("no-real-time", False)
            assert "job j" in failure.message
            assert reason in failure.message
            assert "mode: micro-batch" in failure.hint


def test_headers_tell_origin_and_times(lab: Lab) -> None:
    """Each record names where it came from; the times of sampled ones add up over two hops."""
    with lab.case(
        f"""
        defaults: {{jobs: {{checkpoint: 5 s}}}}
        streams: {{raw: {{{CARS}}}, middle: {{}}, end: {{format: raw}}}}
        jobs:
          one: {{from: raw, to: middle, sql: "SELECT car, speed FROM raw"}}
          two: {{from: middle, to: end, map: "code:value"}}
        """,
        code="def value(record):\n    return record['car']\n",
    ) as case:
        facts = case.examine()
        assert facts["one"].schemas["middle"] == {"car": "string", "speed": "double"}
        case.start()
        case.send("raw", [json_record(car="c", speed=n) for n in range(300)])
        end = case.read("end", 300)
        name = case.pipeline.name
        for stream, job, before in (("middle", "one", "raw"), ("end", "two", "middle")):
            origins = {record.header("millrace-origin") for record in case.read(stream)}
            wanted = {f"{name}/{job} {before} 0 {n} 0".encode() for n in range(300)}
            assert origins == wanted, stream
        sampled = [record for record in end if record.header("millrace-times")]
        assert len(sampled) == 3  # positions 0, 128 and 256
        found = shares(sampled, ["one", "two"])
        assert [item.count for item in found] == [3, 3]
        assert sum(item.share for item in found) == pytest.approx(1)
        assert all(item.p50 >= 0 for item in found)


def test_a_place_has_one_writer(lab: Lab, java: Java, connector: Path) -> None:
    text = f"""
    streams: {{raw: {{{CARS}}}, out: {{}}}}
    jobs: {{only: {{from: raw, to: out, sql: "SELECT car FROM raw"}}}}
    """
    other = SparkEngine(lab.place / "other", java, [connector])
    other.launch()
    try:
        with lab.case(text) as case:
            case.start()
            with pytest.raises(OperationFailed) as caught:
                other.start(case.order("only"))
            assert (caught.value.code, caught.value.transient) == ("leased", True)
            assert str(lab.engine.pid) in caught.value.message
            assert other.status()["only"].state is JobState.FAILED
            case.send("raw", [json_record(car="c")])
            assert len(case.read("out", 1)) == 1
    finally:
        other.close()


@contextmanager
def trickle(case: Case, stream: str, pause: float = 0.01) -> Iterator[list[int]]:
    """Write numbers one after the other until the end; the list holds what was written."""
    sent: list[int] = []
    stop = threading.Event()

    def records() -> Iterator[Record]:
        while not stop.wait(pause):
            sent.append(len(sent))
            yield json_record(f"k{len(sent) % 7}", id=sent[-1])  # 3 by 2 partitions: all 6 pairs

    thread = threading.Thread(target=case.send, args=(stream, records()))
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join(60)


def test_planned_stops_lose_nothing_and_repeat_nothing(lab: Lab) -> None:
    """Stopped and started under a trickle: in a boundary, after the next one, and before one.

    What is there already is looked for by tests (6 pairs of partitions), by a look-up (12), and by
    positions alone where there is one place for it.
    """
    text = """
    defaults: {streams: {partitions: 2}, jobs: {checkpoint: 5 s}}
    streams: {raw: {schema: {id: int}, partitions: 3}, fast: {}, even: {}, odd: {}, batch: {},
              one: {partitions: 1}}
    jobs:
      one: {from: raw, to: one, mode: real-time, sql: "SELECT id FROM raw"}
      fast: {from: raw, to: fast, mode: real-time, sql: "SELECT id FROM raw"}
      split: {from: raw, to: [even, odd], mode: real-time, python: "code:split"}
      batch: {from: raw, to: batch, mode: micro-batch, sql: "SELECT id FROM raw"}
    """
    code = """
    def split(raw):
        return raw.where("id % 2 = 0"), raw.where("id % 2 = 1")
    """
    log = lab.place / "driver" / "driver.log"
    before = log.stat().st_size
    with lab.case(text, code=code) as case:
        with trickle(case, "raw") as sent:
            for at in (in_boundary, after_boundary, None):
                case.start()
                flows(case, len(sent) + 20)
                if at is not None:
                    at(case, "fast")
                case.stop()
                assert lab.engine.status()["fast"].state is JobState.STOPPED
        case.start()
        flows(case, len(sent))
        check_once(case, len(sent))
    said = log.read_bytes()[before:].decode("utf-8", "replace")
    assert "Aborting task" not in said  # nobody takes a planned stop for an error
    assert "commit for partition" not in said


def after_boundary(case: Case, job: str) -> None:
    case.progress(job, case.engine.status()[job].progress.fates.read + 1)


def in_boundary(case: Case, job: str) -> None:
    """Stop a job while Spark commits a batch, and has not yet told of it."""
    offsets = case.order(job).place / "checkpoint" / "offsets"
    before = set(offsets.iterdir())
    until = time.monotonic() + LIMIT
    while not {path for path in offsets.iterdir() if path.name.isdigit()} - before:
        assert time.monotonic() < until, "no boundary"
        time.sleep(0.001)
    case.engine.stop(job)


def flows(case: Case, least: int) -> None:
    """Wait until every job has written so many records."""
    for streams in (("one",), ("fast",), ("even", "odd"), ("batch",)):
        wait_until(lambda s=streams: sum(map(case.count, s)) >= least, streams)  # type: ignore[misc]


def check_once(case: Case, count: int) -> None:
    for streams in (("one",), ("fast",), ("even", "odd"), ("batch",)):
        records = [record for stream in streams for record in case.read(stream)]
        found = Counter(item["id"] for item in objects(records))
        assert found == Counter(range(count)), streams
    for job in ("one", "fast", "split", "batch"):
        fates = case.fates(job, count)
        assert (fates.read, fates.lost_sight) == (count, 0), job


def test_the_driver_describes_and_lists_its_jobs(lab: Lab) -> None:
    with lab.case(
        f"""
        streams: {{raw: {{{CARS}}}, out: {{}}}}
        jobs: {{seen: {{from: raw, to: out, sql: "SELECT car FROM raw"}}}}
        """
    ) as case:
        with pytest.raises(OperationFailed, match="does not run") as caught:
            lab.engine.describe("seen")
        assert caught.value.code == "no-job"
        case.start()
        found = lab.engine.describe("seen")
        assert found["mode"] == "real-time"
        assert "Project" in found["operators"]
        assert lab.engine._ask({"do": "list"}) == ["seen"]
        with pytest.raises(OperationFailed) as caught:
            lab.engine._ask({"do": "dance"})
        assert caught.value.code == "unknown-command"
        case.stop()
        assert lab.engine._ask({"do": "list"}) == []
