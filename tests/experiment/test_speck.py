"""SpecK's experiments without engines: their files, their arithmetic, what they do to a host."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Event

import pytest

from millrace.errors import OperationFailed
from millrace.experiment.campaign import Campaign, Outcome
from millrace.experiment.declaration import Cell
from millrace.experiment.port import Around
from millrace.experiment.report import write_report
from millrace.experiment.results import Result
from millrace.experiment.sites import loaded
from millrace.experiment.speck import hosts
from millrace.experiment.speck.chains import Chain, drawn, on_spark, one_at_each, site_names
from millrace.experiment.speck.figure6 import EXPERIMENT as FIGURE_6
from millrace.experiment.speck.fog import EXPERIMENT as FOG
from millrace.experiment.speck.fog import gains_of
from millrace.experiment.speck.traffic import (
    CLOUD,
    EDGES,
    Layout,
    Scenario,
    Sensor,
    Told,
    counted,
    lags,
    offered,
    passings,
)
from millrace.ports import Record


@dataclass
class FakeHost:
    """Notes what it is asked for; what is there must be asked for in order."""

    sites: Sequence[str]
    log: list[str] = field(default_factory=list)
    there: dict[str, Chain] = field(default_factory=dict)

    def deploy(self, chain: Chain) -> None:
        assert chain.name not in self.there
        self.there[chain.name] = chain
        self.log.append(f"deploy {len(chain.sites)}")

    def modify(self, chain: Chain, jobs: Sequence[int]) -> None:
        assert self.there[chain.name] == chain
        assert len(set(jobs)) == len(jobs)
        assert set(jobs) <= set(range(len(chain.sites)))
        self.log.append(f"modify {len(jobs)} of {len(chain.sites)}")

    def delete(self, chain: Chain) -> None:
        del self.there[chain.name]
        self.log.append(f"delete {len(chain.sites)}")

    def through(self, chain: Chain) -> None:
        assert chain.name in self.there


def test_figure_6_deploys_modifies_and_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost(site_names(6))
    links: list[float] = []

    @contextmanager
    def opened(cell: Cell, around: Around) -> Iterator[hosts.ChainHost]:
        links.extend(link.latency for link in around.declared.links)
        yield host

    monkeypatch.setitem(hosts.HOSTS, "spark", opened)
    declared = FIGURE_6.declared.with_values({"jobs": (1, 5), "latency": ("7 ms",)})
    declared = replace(declared, repeats=2, warmup=0)
    campaign = Campaign(FIGURE_6, declared, tmp_path, lambda _: None, Event())
    outcome = campaign.perform()
    once = ["deploy 1", "delete 1", "deploy 5", "delete 5", "deploy 5", "modify 1 of 5",
            "modify 5 of 5"]  # fmt: skip
    assert host.log == [*once, "delete 5", *once]
    assert links == [0.007] * 12
    assert not outcome.failed
    assert {result.values["sites_used"] for result in outcome.results} == {6}
    report = write_report(FIGURE_6, declared, outcome, tmp_path)
    assert report is not None
    assert any("To modify 5 jobs" in finding for finding in report.findings)


def test_fewer_flinks_in_little_memory() -> None:
    much, little = hosts.MUCH_MEMORY, hosts.MUCH_MEMORY - 1
    assert hosts.site_count({"engine": "spark", "sites": "auto"}, little) == 6
    assert hosts.site_count({"engine": "flink", "sites": "auto"}, much) == 6
    assert hosts.site_count({"engine": "flink", "sites": "auto"}, little) == 3
    assert hosts.site_count({"engine": "flink", "sites": 5}, little) == 5
    with pytest.raises(OperationFailed, match="sites is 'many'"):
        hosts.site_count({"engine": "flink", "sites": "many"}, much)


def test_engines_must_be_known(tmp_path: Path) -> None:
    around = Around(FIGURE_6.declared, tmp_path, print)
    cell: Cell = {"engine": "storm", "latency": "1 ms"}
    with pytest.raises(OperationFailed, match="storm"), FIGURE_6.opened(cell, around):
        pass


def test_straight_lines_are_told() -> None:
    results = [
        _result({"engine": "spark", "jobs": jobs, "operation": what}, {what: 2.0 + each * jobs})
        for what, each in (("deploy", 0.5), ("modify", 0.1))
        for jobs in (1, 10, 20)
    ]
    deploy, modify, ratio = FIGURE_6.findings(results)
    assert "To deploy 20 jobs takes 12.0 s; 2.00 s and 500 ms for each job, R2 1.000" in deploy
    assert "100 ms for each job" in modify
    assert "is faster than" in ratio
    assert "0.33 of it, in one run of each" in ratio


def test_what_differs_less_than_runs_do_is_not_told_as_faster() -> None:
    results = [
        _result({"engine": "flink", "jobs": 20, "operation": what}, {what: seconds}, seed)
        for what, found in (("deploy", (5.0, 6.0)), ("modify", (4.0, 5.5)))
        for seed, seconds in enumerate(found)
    ]
    *_, ratio = FIGURE_6.findings(results)
    assert "differs less than runs do" in ratio
    assert "0.86 of it." in ratio


def test_lines_of_other_conditions_are_told_apart(tmp_path: Path) -> None:
    results = [
        _result({"scenario": scenario, "window": window, "rate": 9}, {"job3": v, "job4": v})
        for scenario, window, v in (("fog", 20, 10), ("cloud", 20, 5), ("fog", 0, 10),
                                    ("cloud", 0, 10))
    ]  # fmt: skip
    told = FOG.findings(results)
    assert len(told) == 4
    assert "(window 20): D is +50.0 % at 9/s" in told[0]
    assert "(window 0): D is +0.0 % at 9/s" in told[2]


def test_chains_are_pipelines() -> None:
    sites = site_names(3)
    chain = drawn("c", 10, sites, random.Random(1))
    chains, spark = [*one_at_each(sites), chain], on_spark(sites)
    first = loaded(spark.document("p", chains))
    other = loaded(spark.document("p", chains, {"c": [0] * 9 + [1]}))
    assert len(first.jobs) == 13
    changed = [name for name in first.jobs if first.jobs[name] != other.jobs[name]]
    assert changed == ["c_j9"]
    assert first.streams[chain.head].site == chain.sites[0]
    assert first.streams[chain.tail].site == chain.sites[-1]


@pytest.mark.parametrize("scenario", Scenario)
def test_the_traffic_has_the_papers_jobs(scenario: Scenario) -> None:
    layout = Layout.of(scenario, 3, 10)
    file = loaded(layout.document())
    assert len(file.jobs) == 17
    places = {
        kind: {job.site for name, job in file.jobs.items() if name.startswith(kind)}
        for kind in ("clean", "forward", "local", "total")
    }
    far, near = {CLOUD}, set(EDGES)
    assert places["total"] == far
    assert places["local"] == (near if scenario is Scenario.FOG else far)
    assert places["clean"] == places["forward"]
    assert places["clean"] == (far if scenario is Scenario.CLOUD else near)


def test_vehicles_are_a_function_of_seed_and_place() -> None:
    sensor = Sensor("north", 3)
    some = list(islice(passings(1, sensor, 2, 100.0), 50))
    assert some == list(islice(passings(1, sensor, 2, 100.0), 50))
    assert some != list(islice(passings(2, sensor, 2, 100.0), 50))
    assert [due for due, _ in some][:3] == [0.0, 0.01, 0.02]
    good = [r for _, r in some if json.loads(r.value or b"")["speed"] >= 0]
    assert len(good) == offered(1, [sensor], 100.0, 0.5)
    assert 30 < len(good) < 50


def test_what_was_counted_up_to_a_time() -> None:
    told = [Told("w1", 1, 0, 100), Told("w1", 3, 20, 140), Told("w1", 2, 10, 130),
            Told("w2", 1, 30, 150), Told("w2", 2, 40, 190)]  # fmt: skip
    assert counted(told, 99) == 0
    assert counted(told, 140) == 3
    assert counted(told, 189) == 4
    assert counted(told, 190) == 5
    assert lags(told[:2], 90.0) == [10.0, 30.0]


def test_a_result_is_read() -> None:
    text = {"start": "2021-06-14T00:00:00Z", "end": "", "vehicles": 4, "due": 12}
    record = Record(json.dumps(text).encode(), time=99)
    assert Told.of(record) == Told("2021-06-14T00:00:00Z", 4, 12, 99)


def test_gains_are_of_means_by_rate(tmp_path: Path) -> None:
    values = {("fog", 100): (100, 120), ("cloud", 100): (110, 110), ("fog", 1000): (1000, 1000),
              ("cloud", 1000): (400, 600)}  # fmt: skip
    results = [
        _result({"scenario": scenario, "rate": rate}, {"job3": v, "job4": v, "lag3": 5, "lag4": 9},
                seed)
        for (scenario, rate), found in values.items() for seed, v in enumerate(found)
    ]  # fmt: skip
    assert gains_of(results, "job3", Scenario.CLOUD) == {100.0: 0.0, 1000.0: 50.0}
    assert gains_of(results, "job3", Scenario.REMOTE) == {}
    first, _ = FOG.findings(results)
    assert "D is +0.0 % at 100/s, +50.0 % at 1000/s" in first
    declared = FOG.declared.with_values({"rate": (100, 1000)})
    full = [replace(r, cell={**{f: v[0] for f, v in declared.matrix.items()}, **r.cell})
            for r in results]  # fmt: skip
    report = write_report(FOG, declared, Outcome(tuple(full)), tmp_path)
    assert report is not None
    assert (tmp_path / "plot.svg").exists()
    assert FOG.findings(results[:2])[0].startswith("Only one scenario")


def test_a_scenario_must_be_known(tmp_path: Path) -> None:
    cell = {factor: values[0] for factor, values in FOG.declared.matrix.items()}
    around = Around(FOG.declared, tmp_path, print)
    wrong = {**cell, "scenario": "mist"}
    with pytest.raises(OperationFailed, match="mist"), FOG.opened(wrong, around):
        pass


def _result(cell: Cell, values: Mapping[str, float], seed: int = 1) -> Result:
    return Result("x", cell, 0, seed, values, "2026-01-01T00:00:00.000+00:00", 1.0)
