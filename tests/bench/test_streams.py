"""The arithmetic of the benchmark; its measurements run by hand (`python -m bench.streams`)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")
pytest.importorskip("matplotlib")

from bench.streams import chain, latency
from bench.streams.plots import draw
from bench.streams.results import Bar, Part
from bench.streams.systems import Work, pipeline_text
from bench.streams.topics import passing, record
from millrace.spec import load_text


def test_half_of_the_records_pass() -> None:
    assert passing(10_000) == 5_000
    assert 85 <= len(record(999_999)) <= 110


def test_a_straight_line_is_found() -> None:
    slope, base, fit = chain.line([1, 10, 100], [12.0, 30.0, 210.0])
    assert slope == pytest.approx(2)
    assert base == pytest.approx(10)
    assert fit == pytest.approx(1)


def test_latencies_are_counted_from_the_intended_time_and_stalls_found() -> None:
    pairs = [(at / 10, at / 10 + (0.5 if at == 50 else 0.004)) for at in range(100)]
    pairs.append((10.0, 0.0))
    found = latency.summary(pairs, [5.1])
    assert found["lost"] == 1
    assert found["p50_ms"] == pytest.approx(4, rel=0.01)
    assert found["stalls_ms"] == [pytest.approx(500, rel=0.01)]
    assert found["worst"][0]["from_batch_end_s"] == pytest.approx(-0.1)


def test_ends_of_batches_are_those_of_the_time_asked_for(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    now, shift = time.monotonic(), time.time() - time.monotonic()
    for name, at in {"0": now - 50, "1": now - 5, ".1.crc": now - 5}.items():
        file = tmp_path / "commits" / name
        file.touch()
        os.utime(file, (at + shift, at + shift))
    assert latency.boundaries(tmp_path, now - 10, now) == [pytest.approx(now - 5, abs=0.01)]


def test_a_missing_figure_misses_its_bar() -> None:
    assert not Bar("x", None, 1).met
    assert Bar("x", 0.95, 0.95, at_most=False).met


@pytest.mark.parametrize(
    ("kind", "mode"), [("sql", "real-time"), ("sql", "drain"), ("map", "drain")]
)
def test_the_pipelines_are_valid(kind: str, mode: str) -> None:
    read = load_text(pipeline_text(Work("w", kind, mode, "raw", "out")), "x.yaml")
    assert list(read.required().jobs) == ["w"]
    assert len(load_text(chain.text(3), "x.yaml").required().jobs) == 3


def test_figures_and_picture_are_written(tmp_path: Path) -> None:
    run = {"system": "millrace", "mode": "drain", "rate": 5.0, "warm_up": False}
    part = Part("throughput", [run], {"a": {"rate": 5.0}}, [Bar("b", 1.0, 2.0)])
    assert '"met": true' in part.write(tmp_path).read_text()
    assert draw(part, tmp_path).read_text().startswith("<?xml")
