"""`millrace tail`: where it begins and ends, and how records are shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from millrace.brokers.kafka import ManagedKafka
from millrace.cli.main import app
from millrace.cli.views.records import record_document, record_text, shown
from millrace.model.stream import Format
from millrace.ports import Record
from millrace.spec import load

FILE = """\
pipeline: probe
sites: {here: {broker: {kind: kafka, address: "ADDRESS"}}}
streams:
  raw: {partitions: 2}
  rejected: {format: raw}
  live: {}
  absent: {}
jobs:
  all: {from: [raw, rejected, live], to: absent, python: "code:all"}
"""
START = 1_767_600_000_000  # 2026-01-05T08:00:00Z
HEADERS = (
    ("millrace-origin", b"probe/clean raw 1 7 0"),
    ("millrace-cause", b"not json of (a int)"),
    ("odd", b"\xff"),
)
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def pipeline(kafka: ManagedKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project") / "pipeline.yaml"
    path.write_text(FILE.replace("ADDRESS", kafka.status().address))
    for stream in load(path).required().streams.values():
        if stream.name != "absent":
            kafka.ensure(stream)
    # Ten records, by turns in two partitions, a second apart.
    kafka.log.write(
        "raw",
        [Record(b'{"n":%d}' % n, b"k%d" % n, (), n % 2, time=START + 1000 * n) for n in range(10)],
    )
    kafka.log.write("rejected", [Record(b"bad\x1b[2J\xff\n", None, HEADERS, time=START)])
    return path


def tail(pipeline: Path, *arguments: str) -> Result:
    return RUNNER.invoke(app, ["tail", *arguments, "-f", str(pipeline)])


def said(done: Result) -> str:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.stderr.split())


def numbers(done: Result) -> list[int]:
    assert done.exit_code == 0, done.stderr
    return [json.loads(line)["value"]["n"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--from", "earliest"), set(range(10))),
        (("--from", "latest"), set()),
        (("--from", "3"), {6, 7, 8, 9}),
        (("--from", "3", "--partition", "1"), {7, 9}),
        (("--from", "-3"), {7, 8, 9}),
        (("--from", "-3", "--partition", "0"), {4, 6, 8}),
        (("--from", "-100"), set(range(10))),
        (("--from", "2026-01-05T08:00:08Z"), {8, 9}),
        (("--from", "2026-01-05 08:00:07.001"), {8, 9}),
        (("--from", "2030-01-01"), set()),
        ((), set()),
    ],
)
def test_where_it_begins(pipeline: Path, arguments: tuple[str, ...], expected: set[int]) -> None:
    found = numbers(tail(pipeline, "raw", "--wait", "0s", "-o", "json", *arguments))
    assert len(found) == len(expected)
    assert set(found) == expected


def test_the_last_are_in_the_order_of_time(pipeline: Path) -> None:
    done = tail(pipeline, "raw", "--from", "-5", "--wait", "0s", "-o", "json")
    assert numbers(done) == [5, 6, 7, 8, 9]


def test_count_ends_it_without_a_wait(pipeline: Path) -> None:
    assert len(numbers(tail(pipeline, "raw", "--from", "0", "--count", "4", "-o", "json"))) == 4


def test_a_wait_ends_it_when_nothing_comes(pipeline: Path) -> None:
    done = tail(pipeline, "raw", "--from", "4", "--wait", "2s", "-o", "json")
    assert set(numbers(done)) == {8, 9}
    assert said(done) == "reading raw; Ctrl-C ends"


def test_a_record_for_people_and_for_programs(pipeline: Path) -> None:
    done = tail(pipeline, "raw", "--from", "-1", "--wait", "0s")
    assert done.stdout == '1/4  2026-01-05T08:00:09.000Z  k9  {"n": 9}\n'
    done = tail(pipeline, "raw", "--from", "-1", "--wait", "0s", "-o", "json")
    assert json.loads(done.stdout) == {
        "partition": 1,
        "position": 4,
        "time": "2026-01-05T08:00:09.000Z",
        "key": "k9",
        "value": {"n": 9},
        "headers": [],
    }


def test_raw_bytes_and_headers_upset_no_terminal(pipeline: Path) -> None:
    done = tail(pipeline, "rejected", "--from", "earliest", "--wait", "0s")
    assert done.stdout == (
        "0/0  2026-01-05T08:00:00.000Z  -  bad\\x1b[2J\\xff\\n  "
        "(by probe/clean from raw 1/7; cause: not json of (a int); odd: \\xff)\n"
    )
    done = tail(pipeline, "rejected", "--from", "earliest", "--wait", "0s", "--no-headers")
    assert done.stdout.endswith("bad\\x1b[2J\\xff\\n\n")
    done = tail(pipeline, "rejected", "--from", "earliest", "--wait", "0s", "-o", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["value"], found["encoding"]) == ("YmFkG1sySv8K", "base64")
    assert found["headers"] == [
        {"name": "millrace-origin", "value": "probe/clean raw 1 7 0"},
        {"name": "millrace-cause", "value": "not json of (a int)"},
        {"name": "odd", "value": "/w==", "encoding": "base64"},
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("rav",), 1, "has no stream 'rav' = help: did you mean raw?"),
        (("raw", "--from", "soon"), 2, "'soon' is not earliest, latest, a position"),
        (("raw", "--from", "-0"), 2, "-0: the last 1 to"),
        (("raw", "--partition", "2"), 1, "raw has no partition 2"),
        (("raw", "--wait", "soon"), 2, "'soon' is not a time"),
        (("absent", "--wait", "0s"), 1, "there is no topic 'absent'"),
    ],
)
def test_what_can_not_be_shown_is_said(
    pipeline: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = tail(pipeline, *arguments)
    assert done.exit_code == code
    words = " ".join(word for word in said(done).split() if word != "│")
    assert message in words
    assert done.stdout == ""


def test_a_broker_that_does_not_run_is_said(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE.replace('{kind: kafka, address: "ADDRESS"}', "kafka"))
    done = tail(path, "raw", "--home", str(tmp_path / "home"))
    assert done.exit_code == 1
    assert "the broker of site here does not run" in said(done)


def followed(pipeline: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "millrace.cli", "tail", *arguments, "-f", str(pipeline)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )


def test_it_follows_until_ctrl_c(pipeline: Path, kafka: ManagedKafka) -> None:
    with followed(pipeline, "live") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stderr.readline() == "reading live; Ctrl-C ends\n"
            for number in range(3):
                kafka.log.write("live", [Record(b"%d" % number)])
                line = process.stdout.readline()
                assert line.startswith(f"0/{number}  ")
                assert line.endswith(f"  -  {number}\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stdout.read() == ""
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_it_ends_quietly_when_nobody_reads_on(pipeline: Path, kafka: ManagedKafka) -> None:
    with followed(pipeline, "raw", "--from", "earliest") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(("0/0", "1/0"))
            process.stdout.close()
            kafka.log.write("raw", [Record(b'{"n":%d}' % n, partition=0) for n in range(10, 12)])
            assert process.wait(60) == 1
            assert process.stderr.read() == "reading raw; Ctrl-C ends\n"
        finally:
            process.kill()


@given(
    st.none() | st.binary(max_size=60),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=20)), max_size=3),
    st.sampled_from(Format),
)
def test_any_record_is_one_line_of_either_kind(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]], format_: Format
) -> None:
    record = Record(value, key, tuple(headers), 0, 1, START)
    text = record_text(record, format_, headers=True).plain
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    document = record_document(record, format_, headers=True)
    line = json.dumps(document, ensure_ascii=False, allow_nan=False)
    assert json.loads(line) == document
    assert "\n" not in line


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"NaN", {"encoding": "text", "value": "NaN"}),
        (b"1e999", {"encoding": "text", "value": "1e999"}),
        (b"[" * 100_000, {"encoding": "text", "value": "[" * 100_000}),
        (b"\xff", {"encoding": "base64", "value": "/w=="}),
        (b'"\\ud800"', {"value": "\ud800"}),
        (None, {"value": None}),
    ],
)
def test_what_is_no_json_is_told_from_what_is(value: bytes | None, found: dict[str, Any]) -> None:
    document = record_document(Record(value), Format.JSON, headers=False)
    assert {name: document[name] for name in document if name in ("value", "encoding")} == found
    assert record_text(Record(value), Format.JSON, headers=False).plain[:-1].isprintable()


def test_bytes_are_shown_without_what_moves_a_cursor() -> None:
    assert shown(b"a\x9b\xc2\x9b\t\xe2\x80\xae") == "a\\x9b\\x9b\\t\\u202e"
