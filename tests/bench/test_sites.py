"""The arithmetic of the benchmark of sites; measured by hand (`python -m bench.sites`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("matplotlib")

from bench.sites import chains
from bench.sites.figures import SitePart, by_size, percentile
from bench.sites.files import document, drawn, many, one_at_each, site_names
from bench.sites.parts import NAMES
from bench.sites.plots import draw
from bench.sites.setting import Setting
from bench.sites.store import loaded
from bench.streams.results import Bar
from millrace.experiment.figures import Spread


def test_percentiles_are_figures_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 99, 99.9)] == [50, 99, 100]
    assert percentile([7.0], 50) == 7


def test_runs_become_spreads() -> None:
    runs = [{"what": "deploy", "jobs": 10, "seconds": s} for s in (1.0, 2.0, 6.0)]
    assert by_size(runs, "deploy") == {10: Spread(1.0, 3.0, 6.0, 3)}
    assert by_size(runs, "modify") == {}


def test_chains_are_judged_by_lines_and_by_their_longest(tmp_path: Path) -> None:
    part, each = SitePart("chains"), {"deploy": 0.4, "through": 0.5, "modify": 0.2, "delete": 0.1}
    each["modified through"] = 0.3
    for what, seconds in each.items():
        for jobs in (1, 10, 100):
            run = {"round": 0, "what": what, "jobs": jobs, "seconds": 2 + seconds * jobs}
            part.runs.append(run)
    chains.judge(part, Setting(runs=1, sizes=(1, 10, 100)))
    assert all(bar.met for bar in part.bars)
    assert part.rows["deploy, straight line"]["s for each job"] == pytest.approx(0.4)
    assert part.rows["modify 100, s"] == {"min": 22.0, "mean": 22.0, "max": 22.0}
    assert part.rows["modified through 100, s"]["mean"] == 32.0
    assert "modify 100 takes 0.41 of the time to delete and to deploy 100 anew" in part.notes
    assert '"met": true' in part.write(tmp_path).read_text()
    assert draw(part, tmp_path).read_text().startswith("<?xml")
    assert (tmp_path / "sites-chains.png").exists()


def test_parts_without_a_picture_of_their_own_show_their_bars(tmp_path: Path) -> None:
    part = SitePart("store", [], {}, [Bar("size, KB", 200.0, 754.0), Bar("steps", 0.0, 0.0)])
    assert draw(part, tmp_path).exists()
    assert set(NAMES) == {"chains", "store", "unchanged", "api", "idle"}


def test_the_files_are_valid_and_changes_are_as_many_as_asked_for() -> None:
    sites, chance = site_names(6), random.Random(1)
    chain = drawn("c", 20, sites, chance)
    read = loaded(document(sites, [*one_at_each(sites), chain], {"c": [1] * 20}))
    assert len(read.jobs) == 26
    assert set(chain.sites) <= set(sites)
    before, after = loaded(many(95, 6, 1)), loaded(many(95, 6, 1, changed=9))
    assert len(before.jobs) == 95
    assert sum(before.jobs[name] != after.jobs[name] for name in before.jobs) == 9
