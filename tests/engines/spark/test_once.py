"""`promise: no-duplicates`: batches in transactions, through stops, kills and lost commits."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from confluent_kafka import Producer

from millrace.ports import ORIGIN_HEADER, Record
from tests.engines.spark.lab import Case, Lab, json_record, objects, wait_until

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
ONCE = """
defaults:
  streams: {partitions: 2, promise: no-duplicates}
  jobs: {mode: drain, options: {maxOffsetsPerTrigger: 300}}
streams:
  raw: {schema: {id: int, at: timestamp}, promise: at-least-once, dead_letters: dead}
  dead: {format: raw}
  same: {}
  sums: {}
jobs:
  same: {from: raw, to: same, sql: "SELECT id FROM raw"}
  sums:
    from: raw
    to: sums
    emit: updates
    sql: "SELECT id % 5 AS five, count(*) AS n, sum(id) AS total FROM raw GROUP BY id % 5"
"""
COUNT = 1_800


def records() -> list[Record]:
    good = [json_record(f"k{n % 7}", id=n, at="2026-01-01T00:00:00Z") for n in range(COUNT)]
    return [*good[:100], Record(b"bad", b"k1"), *good[100:]]


def committed(case: Case, stream: str) -> list[Record]:
    """Return what readers see who read committed records."""
    ends = case.kafka.log.ends(case.topic(stream))
    start = dict.fromkeys(ends, 0)
    until = {part: span.end for part, span in ends.items()}
    return list(case.kafka.log.read(case.topic(stream), start, until))


def test_kills_leave_each_batch_once(lab: Lab) -> None:
    """Killed twice in the middle: the output is that of a run that nobody disturbed."""
    with lab.case(ONCE) as case, lab.case(ONCE) as calm:
        for one in (case, calm):
            one.send("raw", records())
        calm.drain()
        for share in (0.2, 0.6):
            case.start()
            wait_until(lambda least=share * COUNT: case.count("same") >= least, "same")  # type: ignore[misc]
            lab.engine.kill()
        case.drain()
        found = Counter(item["id"] for item in objects(committed(case, "same")))
        assert found == Counter(range(COUNT))
        assert [r.value for r in committed(case, "dead")] == [b"bad"] * 2
        assert batches(case, "sums") == batches(calm, "sums")


def batches(case: Case, stream: str) -> Counter[tuple[bytes, bytes | None]]:
    """The records of each batch: what a batch that was written twice would have twice."""
    found: Counter[tuple[bytes, bytes | None]] = Counter()
    for record in committed(case, stream):
        number = (record.header("millrace-batch") or b"").split(b" ")[1]
        found[number, record.value] += 1
    return found


def test_a_batch_that_spark_did_not_note_is_not_written_again(lab: Lab) -> None:
    """As if killed between the transaction's commit and Spark's own note of the batch."""
    with lab.case(ONCE) as case:
        case.send("raw", records()[:200])
        case.drain()
        before = {stream: committed(case, stream) for stream in ("same", "sums", "dead")}
        lab.engine.kill()
        for job in case.pipeline.jobs:
            commits = case.place / "jobs" / job / "checkpoint" / "commits"
            last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
            (commits / str(last)).unlink()
        case.send("raw", records()[200:400])
        case.drain()
        for stream, records_before in before.items():
            after = committed(case, stream)
            assert Counter(r.value for r in records_before) <= Counter(r.value for r in after)
        assert Counter(item["id"] for item in objects(committed(case, "same"))) == Counter(
            range(399)
        )
        last_counts = {
            item["five"]: item["n"]
            for item in sorted(
                (item for item in objects(committed(case, "sums"))), key=lambda item: item["n"]
            )
        }
        assert sum(last_counts.values()) == 399


def test_a_new_checkpoint_writes_anew(lab: Lab) -> None:
    """Marks are those of one checkpoint: batches of a later one are other batches."""
    with lab.case(ONCE) as case:
        case.send("raw", records()[:100])
        case.drain("same")
        shutil.rmtree(case.place / "jobs" / "same")
        case.drain("same")
        assert len(committed(case, "same")) == 200


def test_what_a_transaction_gave_up_is_not_taken_for_written(lab: Lab) -> None:
    """It lies in the log, with origins as if a predecessor had written them, and nobody sees it."""
    text = """
    streams: {raw: {format: text}, out: {format: text}}
    jobs: {job: {from: raw, to: out, sql: SELECT value FROM raw, mode: micro-batch}}
    """
    with lab.case(text) as case:
        case.send("raw", [Record(str(n).encode()) for n in range(5)])
        case.start()
        case.progress("job", 5)
        case.stop()
        settings = {**case.kafka.status().clients["librdkafka"], "transactional.id": "gave-up"}
        producer = Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        origin = f"{case.pipeline.name}/job raw 0 9 0".encode()
        producer.produce(case.topic("out"), b"never", headers=[(ORIGIN_HEADER, origin)])
        assert producer.flush(60) == 0
        producer.abort_transaction(60)
        case.send("raw", [Record(str(n).encode()) for n in range(5, 10)])
        case.start()
        case.progress("job", 10)
        found = [int(record.value or b"") for record in committed(case, "out")]
        assert found == list(range(10))
