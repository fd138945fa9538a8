"""Each line of a log is one JSON object, and no secret is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.measure.logs import HIDDEN, ROOT, JsonLines, log_event, log_to

LOGGER = logging.getLogger("millrace.test")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "log.jsonl"
    with closing(log_to(path)):
        yield path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_event_has_its_time_level_and_fields(path: Path) -> None:
    before = datetime.now(UTC)
    log_event(LOGGER, "job started", job="clean", pid=12)
    (line,) = lines(path)
    time = datetime.fromisoformat(line.pop("time"))
    assert time.tzinfo == UTC
    assert abs((time - before).total_seconds()) < 5
    assert line == {"level": "info", "event": "job started", "job": "clean", "pid": 12}


def test_time_has_milliseconds(path: Path) -> None:
    log_event(LOGGER, "tick")
    assert len(lines(path)[0]["time"]) == len("2026-01-01T00:00:00.000Z")


def test_plain_calls_and_exceptions_are_lines_too(path: Path) -> None:
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        LOGGER.exception("could not start %s", "clean")
    (line,) = lines(path)
    assert line["event"] == "could not start clean"
    assert line["level"] == "error"
    assert "ValueError: bad\nthing" in line["exception"]


def test_secrets_are_hidden_at_any_depth(path: Path) -> None:
    log_event(
        LOGGER,
        "connect to kafka://me:hunter2@host",
        password="hunter2",  # noqa: S106 - what must not come out
        options=[{"sasl.jaas.config": "hunter2", "private-key": ["hunter2"], "user": "me"}],
        address="https://me:hunter2@host/path",
    )
    text = path.read_text()
    assert "hunter2" not in text
    (line,) = lines(path)
    assert line["password"] == HIDDEN
    assert line["options"][0]["user"] == "me"
    assert line["address"].endswith("@host/path")


def test_a_field_does_not_take_the_place_of_the_level(path: Path) -> None:
    LOGGER.info("x", extra={"millrace_fields": {"level": "deep", "event": 1, "time": 2}})
    (line,) = lines(path)
    assert (line["level"], line["event"]) == ("info", "x")
    assert (line["level_"], line["event_"], line["time_"]) == ("deep", 1, 2)


def test_below_the_level_nothing_is_written(path: Path) -> None:
    log_event(LOGGER, "detail", logging.DEBUG)
    assert lines(path) == []


def test_a_closed_log_leaves_the_logger_as_it_was(tmp_path: Path) -> None:
    logger = logging.getLogger(ROOT)
    before = (logger.level, list(logger.handlers))
    log = log_to(tmp_path / "log", logging.DEBUG)
    assert (logger.level, logger.handlers) != before
    log.close()
    log.close()
    assert (logger.level, list(logger.handlers)) == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=5,
)


@settings(max_examples=50)
@given(st.text(), st.dictionaries(st.text(), VALUES))
def test_anything_makes_one_strict_line(name: str, fields: dict[str, Any]) -> None:
    record = logging.LogRecord(ROOT, logging.INFO, "", 0, "%s", (name,), None)
    record.millrace_fields = fields
    line = JsonLines().format(record)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert "\n" not in line
    document = json.loads(line, parse_constant=refuse)
    assert document["level"] == "info"


def test_a_list_in_itself_ends() -> None:
    record = logging.LogRecord(ROOT, logging.INFO, "", 0, "x", None, None)
    endless: list[Any] = []
    endless.append(endless)
    record.millrace_fields = {"it": endless}
    assert json.loads(JsonLines().format(record))["event"] == "x"
