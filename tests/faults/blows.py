"""The faults: each falls on a running pipeline and tells when it fell and what it did."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from millrace.measure.fault import Fault
from millrace.ports import JobState, Record
from tests.faults.rig import RECOVERY, Blow, Rig


def kill_driver(rig: Rig) -> Fault:
    """Kill the driver; its agent starts another, and each job re-runs its open batch."""
    pid, now = rig.driver_pid, time.time()
    before = batches(rig)
    os.kill(pid, signal.SIGKILL)
    rig.work(lambda: rig.driver_pid != pid, RECOVERY)
    return Fault("kill -9 of the driver", now, f"process {pid} -> {rig.driver_pid}, at {before}")


def kill_broker(rig: Rig) -> Fault:
    """Kill the broker; its agent starts it again on the same data and port."""
    pid, now, port = rig.broker.pid, time.time(), rig.broker.status().clients["java"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    rig.work(lambda: rig.broker.alive and rig.broker.pid != pid, RECOVERY)
    assert rig.broker.status().clients["java"] == port
    return Fault("kill -9 of the broker", now, f"process {pid} -> {rig.broker.pid}")


def freeze_driver(rig: Rig, seconds: float = 4.0) -> Fault:
    """Stop every process of the driver for a while and let it go on."""
    now, pid = time.time(), rig.driver_pid
    frozen = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    _send(frozen, signal.SIGSTOP)
    begun = time.monotonic()
    until = begun + 5
    while not all(_stands(process) for process in frozen):
        assert time.monotonic() < until, [process.status() for process in frozen]
        time.sleep(0.01)
    rig.work(lambda: time.monotonic() - begun > seconds, seconds + 5)
    _send(frozen[::-1], signal.SIGCONT)
    return Fault("SIGSTOP of the driver", now, f"{len(frozen)} processes stood {seconds} s")


def _send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _stands(process: psutil.Process) -> bool:
    """Whether a process is stopped, or gone: short helpers come and go."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def stop_and_start(rig: Rig) -> Fault:
    """Stop both jobs as planned and start them again, under load."""
    now, before = time.time(), batches(rig)
    order(rig, running=False)
    rig.work(lambda: states(rig) == {JobState.STOPPED}, RECOVERY)
    assert {status.state for status in rig.driver.status().values()} == {JobState.STOPPED}
    order(rig, running=True)
    rig.work(lambda: JobState.STOPPED not in states(rig), RECOVERY)
    return Fault("planned stop of both jobs", now, f"stopped at {before}, started again")


def order(rig: Rig, *, running: bool) -> None:
    """Order that all jobs run, or that they stand still, as a change of the pipeline would."""
    board = rig.runner.board
    deployment = board.deployment
    for name, placed in board.deployment.jobs.items():
        goal = replace(placed.goal, running=running)
        deployment = deployment.with_job(name, replace(placed, goal=goal))
    rig.runner._coordinator.take(replace(board, deployment=deployment))


def states(rig: Rig) -> set[JobState]:
    """What jobs do."""
    return {status.state for status in rig.runner.statuses().values()}


def batches(rig: Rig) -> dict[str, int]:
    """The last committed batch of each job."""
    return {name: status.progress.batch for name, status in rig.runner.statuses().items()}


def garbage(seed: int, count: int) -> Iterator[Record]:
    """Records that no parser likes: bytes that are no text, broken, deep and huge JSON."""
    chosen = random.Random(seed)
    deep = b"[" * 5_000
    makers: list[Callable[[], bytes]] = [
        lambda: chosen.randbytes(chosen.randrange(1, 200)),
        lambda: b'{"seq": "many", "run": 1',
        lambda: b'{"seq": 1e999999, "writer": [}',
        lambda: deep[: chosen.randrange(10, 5_000)],
        lambda: b"",
        lambda: b'\xff\xfe{"seq": 1}',
    ]
    for _ in range(count):
        yield Record(chosen.choice(makers)())


def among_garbage(seed: int, count: int) -> Blow:
    """Write malformed records among the good ones."""

    def blow(rig: Rig) -> Fault:
        log, now = rig.broker.log, time.time()
        sending = threading.Thread(target=log.write, args=("in", garbage(seed, count)))
        sending.start()
        rig.work(lambda: not sending.is_alive(), RECOVERY)
        return Fault("malformed records", now, f"{count} written among the good ones")

    return blow


def fill(folder: Path) -> Path:
    """Fill the disk of a folder to the last byte; removing the file frees it."""
    file = folder / "ballast"
    with file.open("wb", buffering=0) as out:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
    return file


def recovered(rig: Rig) -> None:
    """Wait until all jobs run again."""
    rig.work(rig.settled, RECOVERY)
