"""Jobs on a real cluster that is already there: started, found again, stopped, moved, failing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.engines.flink import FlinkEngine, ManagedFlink, ends, engine
from millrace.errors import OperationFailed
from millrace.ports import JobState
from tests.engines.flink.conftest import MakeOrder
from tests.engines.flink.waits import numbers, until, until_more, until_state

RARELY = "execution.checkpointing.interval: 1 h"
OFTEN = "execution.checkpointing.interval: 100 ms"


@pytest.fixture
def attached(flink: ManagedFlink) -> Iterator[FlinkEngine]:
    """Return an engine that knows the cluster by its address alone."""
    flink.wait()
    found = FlinkEngine(flink.page)
    found.wait()
    try:
        yield found
    finally:
        found.kill()


def failure(
    flink: FlinkEngine, *arguments: str, make: MakeOrder, **options: str
) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        flink.start(make("own", *arguments, **options))
    assert "own" not in [run.job for run in flink.runs.all() if run.lives]
    return caught.value


def test_a_jar_is_sent_once(attached: FlinkEngine, order: MakeOrder) -> None:
    attached.start(order("one"))
    other = FlinkEngine(attached.page)
    other.start(order("two"))
    files = attached.rest.calls.get("/jars")["files"]
    other.kill()
    assert len({file["name"] for file in files}) == len(files) == 1
    assert len(files[0]["name"]) == 64 + len(".jar")


def test_a_job_that_runs_is_found_and_left_alone(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    attached.start(order("own"))
    status = attached.status()["own"]
    seen = attached.rest.jobs()[status.run]
    assert status.state is JobState.RUNNING
    assert seen.name.startswith("millrace/p/own/1/")
    for forgotten in (False, True):
        if forgotten:  # it is found by its name then
            (order("own").place / "flink.json").unlink()
        later = FlinkEngine(attached.page)
        later.start(order("own"))
        found = later.status()["own"]
        assert (found.state, found.run) == (JobState.RUNNING, status.run)
    assert attached.rest.jobs()[status.run].since == seen.since
    until(lambda: attached.status()["own"].progress.fates.read > 0, attached.status)
    fates = attached.status()["own"].progress.fates
    assert fates.used == fates.read
    assert 0 < fates.written["done"] <= len(numbers(tmp_path / "own.txt"))
    assert json.loads((order("own").place / "flink.json").read_text())["run"] == status.run


def test_a_job_that_names_itself_is_found_by_its_id(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    given = order("own", str(tmp_path / "own.txt"), "1000000", "its own name")
    attached.start(given)
    run = attached.status()["own"].run
    assert attached.rest.jobs()[run].name == "its own name"
    later = FlinkEngine(attached.page)
    later.start(given)
    assert later.status()["own"].run == run


def test_stopped_and_moved_it_goes_on_where_it_was(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    written = tmp_path / "own.txt"
    attached.start(order("own"))
    first = attached.status()["own"].run
    until_more(written)
    attached.stop("own")
    assert attached.status()["own"].state is JobState.STOPPED
    assert attached.rest.state(first) == "FINISHED"
    place = order("own").place
    kept = json.loads((place / "flink.json").read_text())
    assert kept["begin"].startswith("savepoints/")
    stopped = len(numbers(written))
    elsewhere = tmp_path / "elsewhere" / "7"
    shutil.copytree(place, elsewhere)  # as a parcel that is opened at another site
    shutil.rmtree(place)
    attached.start(order("own", place=elsewhere))
    assert attached.status()["own"].run != first
    until_more(written)
    attached.stop("own")
    found = numbers(written)
    assert len(found) > stopped
    assert found == list(range(len(found)))


def test_a_changed_program_takes_over_what_the_old_one_kept(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    written = tmp_path / "own.txt"
    attached.start(order("own"))
    until_more(written)
    later = FlinkEngine(attached.page)  # its agent was restarted, and the file has changed
    later.start(order("own", str(written), "2000000", "-"))
    until_more(written)
    later.stop("own")
    found = numbers(written)
    assert found == list(range(len(found)))


def test_savepoints_may_be_where_the_cluster_sees_them(
    flink: ManagedFlink, order: MakeOrder, tmp_path: Path
) -> None:
    flink.wait()
    folder, written = tmp_path / "savepoints", tmp_path / "own.txt"
    attached = FlinkEngine(flink.page, {"savepoints": f"file://{folder}"})
    for _ in range(3):
        attached.start(order("own"))
        until_more(written)
        attached.stop("own")
    found = numbers(written)
    assert found == list(range(len(found)))
    kept = json.loads((order("own").place / "flink.json").read_text())
    assert kept["begin"].startswith(f"file:{folder}/p/own/savepoint-")
    until(lambda: len(list(folder.glob("p/own/*"))) == 1, "old ones are not removed")
    attached.kill()


def test_a_savepoint_that_fails_leaves_the_job_alone(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    attached.start(order("own", options=RARELY))
    run, written = attached.status()["own"].run, tmp_path / "own.txt"
    until_more(written)
    full = tmp_path / "own.txt.full"
    full.touch()
    with pytest.raises(OperationFailed) as caught:
        attached.stop("own")
    assert caught.value.code == "savepoint-failed"
    assert "it goes on" in caught.value.message
    assert "no space left" in caught.value.message
    until_more(written)
    status = attached.status()["own"]
    assert (status.state, status.run) == (JobState.RUNNING, run)
    attached.close()  # it is not ended, and that is told
    status = attached.status()["own"]
    assert (status.state, attached.rest.state(run)) == (JobState.RUNNING, "RUNNING")
    assert "it goes on" in status.error
    full.unlink()
    attached.stop("own")
    found = numbers(written)
    assert found == list(range(len(found)))


def test_a_program_that_can_not_be_run_is_told(attached: FlinkEngine, order: MakeOrder) -> None:
    missing = failure(attached, make=order, path="other.jar")
    assert (missing.code, missing.hint) == ("no-jar", "look at `jar.path`")
    wrong = failure(attached, make=order, entry="jobs.Number")
    assert wrong.code == "no-such-class"
    assert "jobs.Numbers" in wrong.hint
    throws = failure(attached, make=order, entry="jobs.Throws")
    assert throws.code == "program-failed"
    assert "no topic was given" in throws.message
    exits = failure(attached, "exit", make=order, entry="jobs.Throws")
    assert exits.code == "program-failed"
    attached.wait()  # it took nothing with it


def test_a_job_that_fails_is_told_with_its_cause(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path
) -> None:
    written = tmp_path / "own.txt"
    given = order("own", options=f"restart-strategy.type: none, {OFTEN}")
    attached.start(given)
    run = attached.status()["own"].run
    until(lambda: attached.rest.snapshot(run) is not None, "it has no checkpoint")
    (tmp_path / "own.txt.broken").touch()
    status = until_state(attached, "own", JobState.FAILED)
    assert "can't be written" in status.error
    assert status.transient
    assert run in status.hint
    (tmp_path / "own.txt.broken").unlink()
    attached.start(given)  # from its last checkpoint, which is on the cluster's side
    found = until_more(written)
    assert found.count(0) == 1
    assert set(found) == set(range(max(found) + 1))


def test_a_job_that_flink_starts_again(
    attached: FlinkEngine, order: MakeOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "SETTLE_SECONDS", 0.2)
    written, broken = tmp_path / "own.txt", tmp_path / "own.txt.broken"
    strategy = "restart-strategy.type: fixed-delay, restart-strategy.fixed-delay.delay: 300 ms"
    attempts = "restart-strategy.fixed-delay.attempts: 1000"
    attached.start(order("own", options=f"{strategy}, {attempts}"))
    until_more(written)
    broken.touch()

    def starts_again() -> bool:  # between two tries it runs for a moment
        found = attached.status()["own"]
        return "can't be written" in found.error and found.state is JobState.STARTING

    until(starts_again, attached.status)
    broken.unlink()
    until_state(attached, "own", JobState.RUNNING)
    broken.touch()
    until_state(attached, "own", JobState.STARTING)
    attached.stop("own")  # it can't be saved, so it is cancelled
    assert attached.status()["own"].state is JobState.STOPPED


def test_a_job_without_free_slots_is_told_and_does_not_stay(
    attached: FlinkEngine, order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SLOT_SECONDS", 1.0)
    short = failure(attached, make=order, options="parallelism.default: 50")
    assert (short.code, short.transient) == ("no-slots", True)
    assert "12 task slots" in short.message
    until(lambda: attached.rest.slots().free > 0, "its slots are not given back")


def test_a_job_ends_by_itself(attached: FlinkEngine, order: MakeOrder, tmp_path: Path) -> None:
    attached.start(order("own", str(tmp_path / "own.txt"), "9", "-"))
    assert until_state(attached, "own", JobState.ENDED).error == ""
    assert numbers(tmp_path / "own.txt") == list(range(10))


def test_a_job_is_looked_at_without_a_cluster(order: MakeOrder) -> None:
    nowhere = FlinkEngine("http://127.0.0.1:9/")
    facts = nowhere.examine([order("own")])["own"]
    assert facts.reasons == ("a program of its own decides",)
    assert facts.schemas == {"done": {"n": "int"}}
    with pytest.raises(OperationFailed, match="no class"):
        nowhere.examine([order("own", entry="jobs.Nothing")])
    with pytest.raises(OperationFailed) as caught:
        nowhere.wait()
    assert (caught.value.code, caught.value.transient) == ("unreachable", True)
    assert not nowhere.alive
    nowhere.kill()
