"""What an engine does, whatever it is. Its jobs work on numbers, so that any engine has them."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar, Final, Protocol

import pytest

from millrace.errors import OperationFailed
from millrace.ports import Engine, JobOrder, JobState, JobStatus
from millrace.testing.conformance.claims import Conformance, behaviour

#: What makes a job of the standard `FAILS` fail.
BAD: Final = -1
_LIVES: Final = frozenset({JobState.RUNNING, JobState.STARTING})
#: For how long a call may keep its caller that promises not to block.
_SOON: Final = 2.0
#: And how long a kill without a grace may take, processes included.
_AT_ONCE: Final = 10.0


class Standard(StrEnum):
    """The jobs that an author writes for the engine; each reads numbers and writes numbers."""

    #: Writes what it reads.
    COPIES = "copies"
    #: Writes what `squares` returns.
    SQUARES = "squares"
    #: Writes what it reads until it reads `BAD`: then it fails, however often it is tried.
    FAILS = "fails"
    #: Its code can't run: there is no such function, column or class.
    WRONG = "wrong"


def squares(number: int) -> list[int]:
    """Return what a job of the standard `SQUARES` makes of a number: odd ones have no result."""
    return [number * number] if number % 2 == 0 else []


class Bench(Protocol):
    """What the suite works with: an author's engine, with jobs and streams for it."""

    def engine(self) -> Engine:
        """Return the engine; after it was closed or killed, another one or the same anew."""
        ...

    def order(self, standard: Standard, job: str) -> JobOrder:
        """Return the order of a job; the same place and streams for the same name."""
        ...

    def send(self, job: str, numbers: Sequence[int]) -> None:
        """Write numbers to the stream that a job reads; it was ordered before."""
        ...

    def results(self, job: str) -> Sequence[int]:
        """Return all that a job has written, in any order."""
        ...

    def ends(self, job: str) -> Mapping[str, Mapping[int, int]]:
        """Return where the streams end now that a job reads, by name and partition."""
        ...


class EngineConformance(Conformance, suite=True):
    """Tests of the port `Engine`; a subclass gives the fixture `bench`.

    `examine`, `start`, `stop`, `status`, `close` and `kill` are the port's methods, as far as
    states tell. `neighbours`: jobs don't touch each other. `failures`: one that fails is told.
    `continues`: a job goes on from its progress after a planned stop. `crashes`: and after a kill.
    `drains`: a stop commits up to some ends. `progress`: positions and fates are told. `moving`: a
    job goes on in another folder. `results`: they are those of plain Python.
    """

    #: How long a machine with much else to do may take.
    LIMIT: ClassVar[float] = 60.0

    @pytest.fixture
    def fresh(self, bench: Bench) -> Iterator[Callable[[], str]]:
        """Return a function that gives names of jobs; all of them are stopped at the end."""
        given: list[str] = []

        def name() -> str:
            given.append(f"job-{uuid.uuid4().hex[:8]}")
            return given[-1]

        yield name
        for job in given:
            bench.engine().stop(job)

    @pytest.fixture
    def job(self, fresh: Callable[[], str]) -> str:
        """Return the name of a job."""
        return fresh()

    def until(self, condition: Callable[[], bool], what: Callable[[], object]) -> None:
        """Wait for a condition; fails with `what` after the limit."""
        end = time.monotonic() + self.LIMIT
        while not condition():
            assert time.monotonic() < end, f"not within {self.LIMIT:.0f} s: {what()}"
            time.sleep(0.02)

    def wait_results(self, bench: Bench, job: str, wanted: Sequence[int]) -> None:
        """Wait for as many results as are wanted; then they are those."""
        self.until(
            lambda: len(bench.results(job)) >= len(wanted),
            lambda: (sorted(bench.results(job)), bench.engine().status().get(job)),
        )
        assert Counter(bench.results(job)) == Counter(wanted)

    @behaviour("examine")
    def test_examining_tells_of_each_job_and_starts_none(
        self, bench: Bench, fresh: Callable[[], str]
    ) -> None:
        """Whatever it finds out, nothing runs after it."""
        names = [fresh(), fresh()]
        found = bench.engine().examine([bench.order(Standard.COPIES, name) for name in names])
        assert set(names) <= set(found)
        assert not _living(bench.engine()) & set(names)

    @behaviour("examine")
    def test_what_can_not_run_is_told_with_the_way_out(self, bench: Bench, job: str) -> None:
        """To try the same again can't help."""
        with pytest.raises(OperationFailed) as caught:
            bench.engine().examine([bench.order(Standard.WRONG, job)])
        assert caught.value.message
        assert caught.value.hint
        assert not caught.value.transient

    @behaviour("start")
    def test_a_job_runs_when_start_returns(self, bench: Bench, job: str) -> None:
        """Its run has a name."""
        assert job not in bench.engine().status()
        assert self._started(bench, job).run

    @behaviour("start")
    def test_starting_a_job_that_runs_leaves_it_alone(self, bench: Bench, job: str) -> None:
        """It is the same run."""
        before = self._started(bench, job)
        assert self._started(bench, job).run == before.run

    @behaviour("start")
    def test_another_start_is_another_run(self, bench: Bench, job: str) -> None:
        """Its name is another one than before the stop."""
        before = self._started(bench, job)
        bench.engine().stop(job)
        assert self._started(bench, job).run not in ("", before.run)

    @behaviour("start")
    def test_what_does_not_start_does_not_run(self, bench: Bench, job: str) -> None:
        """Raising promises that."""
        with pytest.raises(OperationFailed) as caught:
            bench.engine().start(bench.order(Standard.WRONG, job))
        assert caught.value.message
        assert job not in _living(bench.engine())

    @behaviour("stop")
    def test_a_stopped_job_is_told_so(self, bench: Bench, job: str) -> None:
        """It is `stopped` when the call returns."""
        self._started(bench, job)
        bench.engine().stop(job)
        assert bench.engine().status()[job].state is JobState.STOPPED

    @behaviour("stop")
    def test_stopping_what_does_not_run_is_no_error(self, bench: Bench, job: str) -> None:
        """Neither before it was started nor twice."""
        bench.engine().stop(job)
        self._started(bench, job)
        bench.engine().stop(job)
        bench.engine().stop(job)
        assert job not in _living(bench.engine())

    @behaviour("status")
    def test_status_answers_soon_while_a_job_starts(self, bench: Bench, job: str) -> None:
        """It goes from `starting` to `running`, and nobody who asks is kept waiting."""
        engine, order = bench.engine(), bench.order(Standard.COPIES, job)
        thread = threading.Thread(target=engine.start, args=(order,))
        thread.start()
        try:
            while thread.is_alive():
                asked = time.monotonic()
                seen = engine.status().get(job)
                assert time.monotonic() - asked < _SOON
                assert seen is None or seen.state in _LIVES, seen
                thread.join(0.01)
        finally:
            thread.join(self.LIMIT)
        assert engine.status()[job].state is JobState.RUNNING

    @behaviour("neighbours")
    def test_jobs_do_not_touch_each_other(self, bench: Bench, fresh: Callable[[], str]) -> None:
        """Others start, do not start and stop beside one that runs on."""
        job, wrong = fresh(), fresh()
        before = self._started(bench, job)
        for other in (fresh(), fresh()):
            self._started(bench, other)
            bench.engine().stop(other)
        with pytest.raises(OperationFailed):
            bench.engine().start(bench.order(Standard.WRONG, wrong))
        after = bench.engine().status()[job]
        assert (after.state, after.run) == (JobState.RUNNING, before.run)

    @behaviour("failures")
    def test_a_job_that_fails_is_told_and_others_go_on(
        self, bench: Bench, fresh: Callable[[], str]
    ) -> None:
        """With what was wrong, and a hint; a neighbour goes on working in the same run."""
        job, neighbour = fresh(), fresh()
        before = self._started(bench, neighbour)
        bench.engine().start(bench.order(Standard.FAILS, job))
        bench.send(job, [1, BAD])
        status = bench.engine().status
        self.until(lambda: status()[job].state is JobState.FAILED, lambda: status()[job])
        assert status()[job].error
        assert status()[job].hint
        bench.send(neighbour, [1, 2])
        self.wait_results(bench, neighbour, [1, 2])
        assert status()[neighbour].run == before.run

    @behaviour("close")
    def test_closing_stops_every_job(self, bench: Bench, fresh: Callable[[], str]) -> None:
        """They may be started again later."""
        jobs = [fresh(), fresh()]
        runs = [self._started(bench, job).run for job in jobs]
        engine = bench.engine()
        engine.close()
        assert not _living(engine)
        assert self._started(bench, jobs[0]).run not in runs

    @behaviour("kill")
    def test_a_kill_ends_all_at_once(self, bench: Bench, fresh: Callable[[], str]) -> None:
        """What ran is not told as running any more, and may be started again."""
        jobs = [fresh(), fresh()]
        runs = [self._started(bench, job).run for job in jobs]
        engine, begun = bench.engine(), time.monotonic()
        engine.kill()
        self.until(lambda: not _living(engine), engine.status)
        assert time.monotonic() - begun < _AT_ONCE
        assert self._started(bench, jobs[0]).run not in runs

    @behaviour("results")
    def test_results_are_those_of_plain_python(self, bench: Bench, job: str) -> None:
        """Of what was there before the start and what came later, each once."""
        order, numbers = bench.order(Standard.SQUARES, job), list(range(200))
        bench.send(job, numbers[:120])
        bench.engine().start(order)
        bench.send(job, numbers[120:])
        self.wait_results(bench, job, [made for number in numbers for made in squares(number)])

    @behaviour("continues")
    def test_after_a_stop_it_goes_on_from_its_progress(self, bench: Bench, job: str) -> None:
        """Nothing is lost and nothing is repeated; an engine that was closed is no difference."""
        self._started(bench, job)
        bench.send(job, range(20))
        self.wait_results(bench, job, range(20))
        bench.engine().stop(job)
        bench.send(job, range(20, 40))
        assert Counter(bench.results(job)) == Counter(range(20))
        self._started(bench, job)
        self.wait_results(bench, job, range(40))
        bench.engine().close()
        bench.send(job, range(40, 60))
        self._started(bench, job)
        self.wait_results(bench, job, range(60))

    @behaviour("crashes")
    def test_after_a_kill_nothing_is_lost(self, bench: Bench, job: str) -> None:
        """What was written is there; some of it may be written again."""
        self._started(bench, job)
        bench.send(job, range(500))
        self.until(lambda: bool(bench.results(job)), lambda: bench.engine().status())
        bench.engine().kill()
        written = Counter(bench.results(job))
        bench.send(job, range(500, 510))
        self._started(bench, job)
        self.until(lambda: {*bench.results(job)} >= {*range(510)}, lambda: bench.results(job))
        assert not written - Counter(bench.results(job))

    @behaviour("drains")
    def test_a_stop_with_ends_commits_up_to_there(self, bench: Bench, job: str) -> None:
        """All results are there when it returns, and a later start repeats none.

        It has only just been started, so that much of it is still to be done.
        """
        bench.order(Standard.COPIES, job)
        bench.send(job, range(3000))
        ends = bench.ends(job)
        self._started(bench, job)
        bench.engine().stop(job, ends)
        assert Counter(bench.results(job)) == Counter(range(3000))
        bench.send(job, [3000])
        self._started(bench, job)
        self.wait_results(bench, job, range(3001))

    @behaviour("progress")
    def test_progress_is_told(self, bench: Bench, job: str) -> None:
        """Positions by stream and partition, and the fates of all that was read."""
        self._started(bench, job)
        bench.send(job, range(30))
        self.wait_results(bench, job, range(30))
        ends, status = bench.ends(job), bench.engine().status
        bench.engine().stop(job, ends)
        told = status()[job].progress
        assert {stream: dict(parts) for stream, parts in told.positions.items()} == ends
        assert (told.fates.read, told.fates.used) == (30, 30)
        assert sum(told.fates.written.values()) == 30

    @behaviour("moving")
    def test_a_job_goes_on_in_another_folder(self, bench: Bench, job: str) -> None:
        """Its folder as a whole is its progress."""
        order = bench.order(Standard.COPIES, job)
        self._started(bench, job)
        bench.send(job, range(10))
        self.wait_results(bench, job, range(10))
        bench.engine().stop(job)
        place = order.place.with_name(f"{order.place.name}-moved")
        shutil.move(order.place, place)
        bench.engine().start(replace(order, place=place))
        bench.send(job, range(10, 20))
        self.wait_results(bench, job, range(20))
        assert not order.place.exists()

    def _started(self, bench: Bench, job: str) -> JobStatus:
        """Start a job that copies and return what is told of it: it runs."""
        bench.engine().start(bench.order(Standard.COPIES, job))
        status = bench.engine().status()[job]
        assert status.state is JobState.RUNNING, status
        return status


def _living(engine: Engine) -> set[str]:
    """The jobs that run, or are about to."""
    return {name for name, status in engine.status().items() if status.state in _LIVES}
