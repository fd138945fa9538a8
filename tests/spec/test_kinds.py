"""Kinds of brokers and engines that packages bring, bridges, and what pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace.model.site import BrokerKind
from millrace.ports.plugins import Registry
from millrace.spec import load_text

PAGE = Path(__file__).parents[2] / "docs" / "brokers.md"
FILE = """
pipeline: p
sites: {a: {broker: KIND}, b: {broker: kafka}}
streams: {raw: {site: a, schema: {n: int}}, copy: {site: b}}
jobs: {up: {site: b, from: raw, to: copy, bridge: true}}
"""


def codes(text: str) -> list[str]:
    return [problem.code for problem in load_text(text).diagnostics]


def test_a_kind_may_be_what_a_package_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Registry({"brokers": {"shelf": object}})
    monkeypatch.setattr("millrace.spec.convert.installed", lambda: there)
    pipeline = load_text(FILE.replace("KIND", "shelf")).required()
    broker = pipeline.sites["a"].broker
    assert broker is not None
    assert (broker.kind, pipeline.streams["raw"].transport) == ("shelf", "shelf")
    assert pipeline.sites["b"].broker is not None
    assert pipeline.sites["b"].broker.kind is BrokerKind.KAFKA
    (problem,) = load_text(FILE.replace("KIND", "shelff")).diagnostics
    assert (problem.code, problem.nearest) == ("unknown-kind", "shelf")
    assert codes(FILE.replace("KIND", "7")) == ["wrong-type"]


def test_a_file_that_was_accepted_is_read_where_its_plug_in_is_missing() -> None:
    text = FILE.replace("KIND", "shelf")
    assert load_text(text, accepted=True).required().streams["raw"].transport == "shelf"
    assert "unknown-kind" in codes(text)


def test_a_bridge_copies_columns_and_nothing_else() -> None:
    pipeline = load_text(FILE.replace("KIND", "mqtt")).required()
    assert pipeline.streams["copy"].schema == {"n": "int"}
    assert pipeline.jobs["up"].kind == "bridge"
    own = FILE.replace("KIND", "mqtt").replace(
        "copy: {site: b}", "copy: {site: b, schema: {n: long}}"
    )
    assert load_text(own).required().streams["copy"].schema == {"n": "long"}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("bridge: false", "bridge: true"),
        ("from: [raw, copy], bridge: true", "from: raw, to: copy, bridge: true"),
        ("copy: {site: b, format: csv}", "copy: {site: b}"),
    ],
)
def test_what_is_no_bridge_is_told(wrong: str, right: str) -> None:
    assert "bad-bridge" in codes(FILE.replace("KIND", "mqtt").replace(right, wrong))


@pytest.mark.parametrize(
    ("topic", "fits"),
    [("a/+/b", True), ("#", True), ("+", True), ("a/#", True), ("a+", False), ("a/#/b", False)],
)
def test_many_topics_are_for_streams_that_are_only_read(topic: str, fits: bool) -> None:
    text = FILE.replace("KIND", "mqtt").replace(
        "raw: {site: a", f"raw: {{site: a, topic: {topic!r}"
    )
    assert ("bad-topic" not in codes(text)) is fits
    written = text.replace("to: copy", "to: raw").replace("from: raw", "from: copy")
    assert "bad-topic" in codes(written)


def test_the_files_of_the_page_are_valid() -> None:
    first, second = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    streams = "streams: {raw: {site: here, format: raw}, counts: {site: here, format: raw}}\n"
    for text in (first, streams + second):
        assert load_text("pipeline: p\n" + text).required().jobs


@pytest.mark.parametrize(
    ("asked", "way"),
    [
        ("partitions: 2", "write partitions: 1"),
        ("compact: true", "leave compact out"),
        ("retention: 1 h", "leave retention out"),
    ],
)
def test_what_only_a_log_keeps_is_refused_for_mqtt(asked: str, way: str) -> None:
    text = FILE.replace("{site: a, schema: {n: int}}", f"{{site: a, schema: {{n: int}}, {asked}}}")
    assert load_text(text.replace("KIND", "kafka"), "p.yaml").pipeline is not None
    (problem,) = load_text(text.replace("KIND", "mqtt"), "p.yaml").diagnostics
    assert problem.code == "not-with-mqtt"
    assert problem.at is not None
    assert problem.at.line == 4
    assert way in problem.hint
