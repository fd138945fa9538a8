"""`millrace send`: the bytes, keys and times of records, and what can go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from millrace.brokers.kafka import ManagedKafka
from millrace.cli.main import app
from millrace.cli.send import Feed, paced
from millrace.cli.views.records import Columns, key_of, time_of
from millrace.model.stream import Format, Stream
from millrace.ports import Record
from millrace.spec import load

FILE = """\
pipeline: probe
sites: {here: {broker: {kind: kafka, address: "ADDRESS"}}}
streams:
  raw: {key: vehicle, partitions: 3, schema: {vehicle: string, speed: double, at: timestamp}}
  cells: {format: csv, key: [b, a], schema: {a: string, b: int, at: timestamp}}
  notime: {schema: {vehicle: string}}
  times: {schema: {one: timestamp, two: timestamp}}
  blobs: {format: raw}
  absent: {}
jobs:
  all: {from: [raw, cells, notime, times, blobs], to: absent, python: "code:all"}
"""
GOOD = b'{"vehicle": "a", "speed": 1.0, "at": "2026-01-05T08:00:00Z"}'
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def pipeline(kafka: ManagedKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project") / "pipeline.yaml"
    path.write_text(FILE.replace("ADDRESS", kafka.status().address))
    for stream in load(path).required().streams.values():
        if stream.name != "absent":
            kafka.ensure(stream)
    return path


@pytest.fixture
def news(kafka: ManagedKafka) -> Callable[[str], list[Record]]:
    """Return a function that gives what came into a stream since the last look."""
    spans: dict[str, dict[int, int]] = {}
    for name in ("raw", "cells", "blobs", "notime"):
        spans[name] = {part: span.end for part, span in kafka.log.ends(name).items()}

    def found(stream: str) -> list[Record]:
        ends = {part: span.end for part, span in kafka.log.ends(stream).items()}
        return list(kafka.log.read(stream, spans[stream], ends))

    return found


def send(pipeline: Path, *arguments: str, stdin: bytes = b"") -> Result:
    return RUNNER.invoke(app, ["send", *arguments, "-f", str(pipeline)], input=stdin)


def said(done: Result) -> str:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.stderr.split())


def test_lines_arrive_byte_by_byte_with_their_keys(
    pipeline: Path, news: Callable[[str], list[Record]], tmp_path: Path
) -> None:
    lines = [GOOD, b"\xff\xfe garbage", b"", b'{"vehicle": 7}\r', b'{"vehicle": null}', b"[1]"]
    (tmp_path / "one").write_bytes(b"\n".join(lines[:3]) + b"\n")
    (tmp_path / "two").write_bytes(b"\n".join(lines[3:]))
    done = send(pipeline, "raw", str(tmp_path / "one"), str(tmp_path / "two"))
    assert said(done) == "sent 6 records to raw"
    assert done.stdout == ""
    assert done.exit_code == 0
    found = {record.value: record.key for record in news("raw")}
    assert found == dict(zip(lines, (b"a", None, None, b"7", None, None), strict=True))


def test_stdin_and_csv_and_another_key(pipeline: Path, news: Callable[[str], list[Record]]) -> None:
    stdin = b"x,1,\ntoo,many,cells,here\n"
    assert said(send(pipeline, "cells", "-", stdin=stdin)) == "sent 2 records to cells"
    assert said(send(pipeline, "cells", "--key", "a", stdin=b"y,2,")) == "sent 1 record to cells"
    assert [record.key for record in news("cells")] == [b'{"b":"1","a":"x"}', None, b"y"]


def test_a_whole_file_is_one_record(
    pipeline: Path, news: Callable[[str], list[Record]], tmp_path: Path
) -> None:
    data = bytes(range(256)) * 10
    (tmp_path / "picture").write_bytes(data)
    assert said(send(pipeline, "blobs", str(tmp_path / "picture"), "--whole")).startswith("sent 1 ")
    assert [record.value for record in news("blobs")] == [data]


def test_speed_follows_the_times_of_the_records(
    pipeline: Path, news: Callable[[str], list[Record]]
) -> None:
    lines = [b'{"vehicle": "a", "at": "2026-01-05T08:00:0%dZ"}' % second for second in (0, 2, 4)]
    begun = time.monotonic()
    done = send(pipeline, "raw", "--speed", "10x", stdin=b"\n".join(lines))
    assert said(done) == "sent 3 records to raw"
    assert time.monotonic() - begun >= 0.4
    times = [record.time or 0 for record in news("raw")]
    assert times[-1] - times[0] >= 390


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rav",), "has no stream 'rav' = help: did you mean raw?"),
        (("raw", "/nowhere/at-all"), "/nowhere/at-all can't be read: No such file"),
        (("raw", "/"), "/ can't be read: Is a directory"),
        (("notime", "--speed", "2x"), "stream notime declares no timestamp column"),
        (("times", "--speed", "2"), "declares several timestamps: one, two = help: name the"),
        (("raw", "--speed", "2", "--time", "att"), "no column 'att' = help: did you mean at?"),
        (("raw", "--key", "vehicel"), "no column 'vehicel' = help: did you mean vehicle?"),
        (("blobs", "--key", "a"), "has the format raw, whose records have no columns"),
        (("raw", "--speed", "2", "--rate", "5"), "can't be had together"),
        (("absent",), "there is no topic 'absent'"),
    ],
)
def test_what_can_not_be_sent_is_said(
    pipeline: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = send(pipeline, *arguments, stdin=b"{}")
    assert message in said(done)
    assert done.exit_code == 1
    assert "sent " not in done.stderr.replace("absent", "")


@pytest.mark.parametrize("speed", ["fast", "0", "-1x", "nan", "inf"])
def test_a_speed_is_a_number_above_zero(pipeline: Path, speed: str) -> None:
    done = send(pipeline, "raw", "--speed", speed)
    assert done.exit_code == 2
    assert "is not a speed" in said(done)


def test_a_broker_that_does_not_run_is_said(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE.replace('{kind: kafka, address: "ADDRESS"}', "kafka"))
    done = send(path, "raw", "--home", str(tmp_path / "home"))
    assert done.exit_code == 1
    assert "the broker of site here does not run" in said(done)


def test_ctrl_c_ends_in_order_and_says_how_many(
    pipeline: Path, news: Callable[[str], list[Record]]
) -> None:
    command = [sys.executable, "-m", "millrace.cli", "send", "notime", "-f", str(pipeline)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(b'{"vehicle": "a"}\n' * 5)
        process.stdin.flush()  # and the sixth never comes
        _until(lambda: len(news("notime")) == 5)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"sent 5 records to notime, then stopped\n"
    finally:
        process.kill()
        process.wait(60)
        for pipe in (process.stdin, process.stderr):
            _close(pipe)
    assert len(news("notime")) == 5


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


def _until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    last = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < last, "it did not come"
        time.sleep(0.05)


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-6)  # less would be lost in a large number


def test_a_rate_does_not_drift_however_slow_the_taker_is() -> None:
    clock = Clock()
    items: Iterator[tuple[Record, float | None]] = ((Record(b"%d" % n), None) for n in range(50))
    given_at = []
    for number, _ in enumerate(paced(items, 10.0, None, clock, clock.sleep)):
        given_at.append(clock.now)
        clock.now += 1.0 if number == 5 else 0.0  # one pause; the rest catches up
    assert given_at[5] == pytest.approx(100.5)
    assert given_at[6] == pytest.approx(101.5)
    assert given_at[49] == pytest.approx(104.9)


@given(st.lists(st.none() | st.integers(0, 100_000).map(float), max_size=30), st.floats(0.5, 100))
def test_speed_keeps_to_the_times(times: list[float | None], speed: float) -> None:
    clock = Clock()
    items = [(Record(b"%d" % n), at) for n, at in enumerate(times)]
    given_at = [
        (record.value, clock.now) for record in paced(items, None, speed, clock, clock.sleep)
    ]
    assert [value for value, _ in given_at] == [record.value for record, _ in items]
    assert all(one <= other for (_, one), (_, other) in pairwise(given_at))
    first = next((at for at in times if at is not None), 0.0)
    latest = 0.0
    for at, (_, now) in zip(times, given_at, strict=True):
        latest = max(latest, 0.0 if at is None else (at - first) / speed)
        assert now - 100.0 == pytest.approx(latest, abs=1e-3, rel=1e-6)


def test_a_stop_between_records_ends_them_and_a_second_at_once() -> None:
    feed = Feed((Record(b"x") for _ in range(10)), lambda _: None)
    taken = []
    for record in feed:
        taken.append(record)
        if len(taken) == 3:
            feed.stop()
    assert feed.count == len(taken) == 3
    with pytest.raises(KeyboardInterrupt):
        feed.stop()


def test_a_file_that_fails_in_between_ends_the_records() -> None:
    def records() -> Iterator[Record]:
        yield Record(b"x")
        raise OSError(5, os.strerror(5))

    feed = Feed(records(), lambda _: None)
    assert [record.value for record in feed] == [b"x"]
    assert feed.failure is not None


@given(st.binary(max_size=80), st.sampled_from([Format.JSON, Format.CSV]))
def test_no_bytes_upset_the_reader_of_columns(value: bytes, format_: Format) -> None:
    columns = Columns(format_, ("a", "at"), ("a",), "at")
    fields = columns.read(value)
    assert key_of(fields, columns.key) is None or fields is not None
    assert time_of(fields, columns.time) is None or fields is not None


def test_times_are_iso_or_seconds() -> None:
    assert time_of({"at": "2026-01-05T08:00:00"}, "at") == 1767600000.0
    assert time_of({"at": "2026-01-05T09:00:00+01:00"}, "at") == 1767600000.0
    assert time_of({"at": 1767600000}, "at") == 1767600000.0
    assert time_of({"at": True}, "at") is None
    assert time_of({"at": "yesterday"}, "at") is None
    assert time_of(None, "at") is None


def test_the_stream_of_a_topic_is_sent_to_by_its_address(
    kafka: ManagedKafka, tmp_path: Path
) -> None:
    kafka.ensure(Stream("other.topic"))
    path = tmp_path / "pipeline.yaml"
    text = FILE.replace("ADDRESS", kafka.status().address)
    path.write_text(text.replace("absent: {}", "absent: {topic: other.topic}"))
    assert said(send(path, "absent", stdin=b"1\n2\n")) == "sent 2 records to absent"
    assert kafka.log.ends("other.topic")[0].end == 2
