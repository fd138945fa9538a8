"""The drivers of a site: one for each group, and of its own for a job that does harm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from millrace.agent import drivers as module
from millrace.agent.brokers import site_place
from millrace.agent.drivers import Drivers
from millrace.agent.fleet import driver_name, driver_of
from millrace.agent.suspects import DEATHS
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.ports import JobState, JobStatus, Progress
from millrace.spec import load_text

STREAMS = "streams: {raw: {site: a, schema: {n: int}}, out: {site: a}}\n"
JOB = 'from: raw, to: out, sql: "SELECT n FROM raw"'
SEVERAL = (
    f"one: {{site: a, {JOB}}}, two: {{site: a, {JOB}}}, three: {{site: b, {JOB}}}, "
    f"four: {{site: a, group: g, {JOB}}}, five: {{site: a, isolation: dedicated, {JOB}}}"
)
SHARED = f"fine: {{site: a, {JOB}}}, harm: {{site: a, from: raw, to: out, python: 'harm:harm'}}"
NAMES = {
    "one": "a/main",
    "two": "a/main",
    "three": "b/main",
    "four": "a/g",
    "five": "a/job-five",
}


def pipeline(jobs: str, sites: str = "{a: {broker: kafka}, b: {}}") -> Pipeline:
    text = f"pipeline: p\nsites: {sites}\ngroups: {{g: {{}}}}\n{STREAMS}jobs: {{{jobs}}}"
    return load_text(text, "p").required()


@pytest.fixture
def own(folders: Folders, jars: Path, tmp_path: Path) -> Folders:
    del jars  # they are there
    return Folders(tmp_path, folders.cache)


def test_jobs_of_a_group_and_a_site_share_a_driver(own: Folders, tmp_path: Path) -> None:
    one = pipeline(SEVERAL)
    assert {name: driver_name(job) for name, job in one.jobs.items()} == NAMES
    made = {name: driver_of(one, one.jobs[job], name, own) for job, name in NAMES.items()}
    places = {cast(SparkEngine, driver).place for driver in made.values()}
    assert len(places) == 4
    assert all(place.is_relative_to(tmp_path) for place in places)


def test_nothing_is_started_by_being_made(own: Folders, tmp_path: Path) -> None:
    one = pipeline(SEVERAL)
    driver = driver_of(one, one.jobs["one"], "a/main", own)
    drivers = Drivers("a", own, lambda: None, print)
    assert not driver.alive
    assert drivers.all == []
    assert list(tmp_path.iterdir()) == []


def test_a_job_for_another_engine_is_refused(own: Folders) -> None:
    other = pipeline(
        "one: {site: a, from: raw, to: out, process: {command: cat}}",
        "{a: {broker: kafka, engine: [spark, process]}}",
    )
    with pytest.raises(OperationFailed) as caught:
        Drivers("a", own, lambda: None, print).up(other, "one")
    assert caught.value.code == "not-yet"
    assert not caught.value.transient
    assert "one" in caught.value.message
    assert "spark" in caught.value.hint


class Fake(SparkEngine):
    """A driver that is up when it is asked for, without a process."""

    up = False
    page = ""
    slow = False

    def __init__(self, place: Path) -> None:
        super().__init__(place, cast(Java, None), [])

    @property
    def alive(self) -> bool:
        return self.up

    @property
    def pid(self) -> int | None:
        return self.generation or None

    def wait(self) -> None:
        if self.slow:
            raise OperationFailed("driver-slow", "it is not up yet", transient=True)
        self.generation += not self.up
        self.up = True

    def kill(self, grace: float = 0.0) -> None:
        del grace
        self.up = False
        failed = {name: replace(it, state=JobState.FAILED) for name, it in self._jobs.items()}
        self._jobs |= failed

    def runs(self, job: str, batch: int) -> None:
        self._jobs[job] = JobStatus(JobState.RUNNING, progress=Progress(batch))

    def stops(self, job: str) -> None:
        self._jobs[job] = JobStatus(JobState.STOPPED)


@dataclass
class Site:
    """The drivers of site a, all of them fakes."""

    file: Pipeline
    said: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.drivers = Drivers("a", Folders(Path(), Path()), lambda: None, self.said.append)

    def make(self, file: Pipeline, job: Job, name: str, folders: Folders) -> Fake:
        del file, job, folders
        self.made.append(name)
        return Fake(Path(name))

    def up(self, job: str) -> Fake:
        found = self.drivers.up(self.file, job)
        assert isinstance(found, Fake)
        return found

    def die(self, times: int, **batches: int) -> None:
        """Let the shared driver die so often; each job is at that batch when it does."""
        for _ in range(times):
            driver = self.up("fine")
            for job, batch in batches.items():
                driver.runs(job, batch)
            driver.kill()

    def apart(self) -> set[str]:
        return {name for name in self.file.jobs if "job-" in self.drivers.name(self.file, name)}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(pipeline(SHARED))
    monkeypatch.setattr(module, "driver_of", made.make)
    return made


def test_a_driver_is_made_once_and_told_when_it_is_up(site: Site) -> None:
    assert site.up("fine") is site.up("harm")
    assert site.made == ["a/main"]
    assert site.said == ["driver a/main is up"]
    place = site_place(Folders(Path("/home"), Path()), "p", "a")
    assert site.drivers.place(site.file, "fine", place) == place / "drivers" / "main"


def test_one_that_died_is_started_again_and_counts_once(site: Site) -> None:
    """Every one of its jobs finds it dead, again and again."""
    first = site.up("fine")
    for job in ("fine", "harm"):
        first.runs(job, -1)
    first.kill()
    first.slow = True
    for job in ("fine", "harm") * DEATHS:
        with pytest.raises(OperationFailed, match="not up yet"):
            site.up(job)
    assert site.apart() == set()
    first.slow = False
    assert site.up("fine") is site.up("harm") is first
    assert first.generation == 2
    assert sum("ended; starting it again" in text for text in site.said) == 1
    assert site.made == ["a/main"]


def test_a_job_that_got_nowhere_in_each_life_is_set_apart(site: Site) -> None:
    site.die(DEATHS - 1, fine=-1, harm=-1)
    assert site.up("harm") is site.up("fine")
    assert site.apart() == set()
    site.die(1, fine=-1, harm=-1)
    shared = site.up("fine")
    assert site.up("harm") is not shared
    assert site.apart() == {"harm"}
    assert "harm" not in shared.status()
    assert "fine" in shared.status()
    assert site.made == ["a/main", "a/job-harm"]
    assert sum("a driver of its own" in text for text in site.said) == 1
    place = Path("/site")
    assert site.drivers.place(site.file, "harm", place) == place / "drivers" / "job-harm"
    site.die(2 * DEATHS, fine=-1)
    assert site.apart() == {"harm"}, "one job alone is no suspect"


def test_who_gets_on_is_not_suspected(site: Site) -> None:
    for life in range(2 * DEATHS):
        site.die(1, fine=life, harm=life)
    site.up("fine")
    assert site.apart() == set()


def test_after_its_end_nothing_is_started(site: Site) -> None:
    driver = site.up("fine")
    site.drivers.close()
    assert not driver.alive
    with pytest.raises(OperationFailed) as caught:
        site.up("harm")
    assert caught.value.code == "closing"
    assert not driver.alive


def with_options(text: str) -> Pipeline:
    return pipeline(SHARED, f"{{a: {{broker: kafka, engine: {{options: {{{text}}}}}}}, b: {{}}}}")


def test_other_settings_are_another_driver_and_the_old_one_ends_with_its_last_query(
    site: Site,
) -> None:
    first = site.up("fine")
    for job in ("fine", "harm"):
        first.runs(job, 1)
    site.file = with_options("x.y: 1")
    second = site.up("fine")
    assert second is not first
    assert first.alive, "harm runs there still"
    assert second.place != first.place
    for job in ("fine", "harm"):
        first.stops(job)
    assert site.up("harm") is second
    assert site.drivers.all == [second]
    assert site.up("fine") is second


def test_settings_that_come_back_are_those_of_the_first(site: Site) -> None:
    place, plain = Path("/site"), site.file
    site.up("fine")
    site.up("fine").stops("fine")
    site.file = with_options("x.y: 1")
    site.up("fine").stops("fine")
    site.file = plain
    site.up("fine")
    assert site.drivers.place(plain, "fine", place) == place / "drivers" / "main"
    assert len(site.drivers.all) == 1


def test_a_driver_that_somebody_was_just_given_is_not_ended(site: Site) -> None:
    """What is to start in it is on its way."""
    plain = site.file
    first = site.up("fine")
    first.runs("fine", 1)
    site.file = with_options("x.y: 1")
    second = site.up("harm")
    site.file = plain
    assert site.up("fine") is first
    assert site.drivers.all == [first, second]
