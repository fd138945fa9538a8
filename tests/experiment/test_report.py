"""What is written of results: the table, the plot, the page; and the arithmetic of it."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.experiment.campaign import Campaign, Outcome
from millrace.experiment.figures import Spread, fit_of_means, fitted, gain
from millrace.experiment.plot import require_matplotlib
from millrace.experiment.report import Report, write_report
from tests.experiment.toys import DECLARED, Toy


@pytest.fixture
def report(tmp_path: Path) -> Report:
    toy = Toy(fails={("a", 3, 6)})
    outcome = Campaign(toy, DECLARED, tmp_path, lambda _: None, Event(), ["millrace"]).perform()
    found = write_report(toy, DECLARED, outcome, tmp_path)
    assert found is not None
    return found


def test_the_table_has_a_row_for_each_cell(report: Report) -> None:
    lines = report.table.splitlines()
    assert lines[0].split("  ")[0] == "kind"
    assert "time, s" in lines[0]
    assert lines[2].split() == ["a", "1", "2", "1.05", "(1", "to", "1.1)", "-"]
    assert lines[4].split() == ["a", "3", "1", "3", "-"]  # one of its two runs failed
    assert lines[5].split() == ["b", "1", "2", "1.05", "(1", "to", "1.1)", "2"]


def test_programs_get_all_figures(report: Report, tmp_path: Path) -> None:
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert rows[0] == {
        "kind": "a", "size": "1", "runs": "2", "time_min": "1", "time_mean": "1.05",
        "time_max": "1.1", "weight_min": "", "weight_mean": "", "weight_max": "",
    }  # fmt: skip
    assert rows[3]["weight_mean"] == "2"


def test_the_page_has_the_paper_and_what_was_found(report: Report, tmp_path: Path) -> None:
    text = (tmp_path / "page.md").read_text()
    for part in ("# Toys", "A figure of toys.", "11 toys were found.", "](plot.svg)", report.table):
        assert part in text
    assert "12 runs, 1 of them failed" in text
    assert "- command: `millrace`" in text


def test_pictures_are_drawn(report: Report, tmp_path: Path) -> None:
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert set(report.files) == {
        tmp_path / name for name in ("table.txt", "table.csv", "page.md", "plot.svg")
    }


def test_without_a_good_run_there_is_nothing_to_see(tmp_path: Path) -> None:
    assert write_report(Toy(), DECLARED, Outcome(()), tmp_path) is None


def test_a_missing_matplotlib_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.experiment.plot.find_spec", lambda _: None)
    with pytest.raises(OperationFailed) as failed:
        require_matplotlib()
    assert "millrace[measure]" in failed.value.hint
    assert importlib.util.find_spec("matplotlib") is not None


@given(
    slope=st.floats(-100, 100), base=st.floats(-100, 100),
    places=st.lists(st.integers(0, 1000), min_size=2, max_size=20, unique=True),
)  # fmt: skip
def test_a_line_is_found_again(slope: float, base: float, places: list[int]) -> None:
    fit = fitted(places, [base + slope * place for place in places])
    assert fit is not None
    assert fit.slope == pytest.approx(slope, abs=1e-6)
    assert fit.at(0) == pytest.approx(base, abs=1e-3)


def test_r2_falls_with_what_a_line_does_not_explain() -> None:
    straight, bent = fitted([1, 2, 3, 4], [1, 2, 3, 4]), fitted([1, 2, 3, 4], [1, 4, 1, 4])
    assert straight is not None
    assert bent is not None
    assert straight.r2 == pytest.approx(1)
    assert bent.r2 == pytest.approx(0.2)
    assert fitted([1, 1], [2, 3]) is None


def test_spreads_and_lines_of_means() -> None:
    points = {1.0: Spread.of([1, 3]), 2.0: Spread.of([4])}
    assert points[1.0] == Spread(1, 2, 3, 2)
    fit = fit_of_means(points)
    assert fit is not None
    assert (fit.base, fit.slope) == (0, 2)


def test_the_gain_is_that_of_the_paper() -> None:
    assert gain(200, 100) == 50
    assert gain(100, 100) == 0
    assert gain(100, 150) == -50
