"""One driver per place: a lease with a generation; a predecessor is proven gone first."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine import end_session
from millrace.machine.process import session_members, started_at

_FILE, _LOCK = "lease.json", "lease.lock"
#: Instead of a holder's process, where it has let go.
NOBODY = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may write the checkpoints below a place. Each holder's generation is higher."""

    generation: int
    host: str
    #: The driver's process, whose session holds its virtual machine and workers too.
    pid: int
    started: float


def holder(place: Path) -> Lease | None:
    """Return the lease of a place, if there ever was one."""
    try:
        return Lease(**json.loads((place / _FILE).read_text("utf-8")))
    except FileNotFoundError:
        return None


def clear(place: Path) -> int:
    """End what is left of the last holder and return the generation of the next.

    Every process of its session is ended, and this returns only when none is left. A holder on
    another host can't be ended from here.
    """
    last = holder(place)
    if last is None:
        return 1
    if last.pid == NOBODY:
        return last.generation + 1
    if last.host != socket.gethostname():
        raise _elsewhere(place, last)
    known = started_at(last.pid)
    reused = known != 0.0 and abs(known - last.started) > 1
    if not reused and session_members(last.pid):
        end_session(last.pid)
    return last.generation + 1


def take(place: Path, generation: int, pid: int | None = None) -> Lease:
    """Write a process, by default this one, into the lease; it must lead a session of its own."""
    pid = os.getpid() if pid is None else pid
    lease = Lease(generation, socket.gethostname(), pid, started_at(pid))
    place.mkdir(parents=True, exist_ok=True)
    _write(place, lease)
    return lease


def _write(place: Path, lease: Lease) -> None:
    fresh = place / f"{_FILE}.{os.getpid()}"
    fresh.write_text(json.dumps(asdict(lease)), encoding="utf-8")
    fresh.replace(place / _FILE)


def claim(place: Path) -> Lease:
    """Take the lease of a job's own place; refused while another driver that holds it lives."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two drivers that look at once must not both find none
        last = holder(place)
        if last is not None and last.pid not in (NOBODY, os.getpid()):
            _refuse_living(place, last)
        return take(place, last.generation + 1 if last is not None else 1)


def let_go(place: Path) -> None:
    """Let others have a place that this process holds: nothing of it writes there any more."""
    last = holder(place)
    if last is not None and (last.host, last.pid) == (socket.gethostname(), os.getpid()):
        _write(place, Lease(last.generation, last.host, NOBODY, 0.0))


def release(place: Path) -> None:
    """Let go of a place whose holder was on another host that is vouched to be down."""
    last = holder(place)
    if last is not None and last.host != socket.gethostname():
        (place / _FILE).unlink(missing_ok=True)


def _refuse_living(place: Path, last: Lease) -> None:
    if last.host != socket.gethostname():
        raise _elsewhere(place, last)
    started = started_at(last.pid)
    if session_members(last.pid) and (started == 0.0 or abs(started - last.started) < 1):
        raise OperationFailed(
            "leased",
            f"another driver (process {last.pid}) writes the checkpoint in {place}",
            "stop that driver first: two would spoil it",
            transient=True,
        )


def _elsewhere(place: Path, last: Lease) -> OperationFailed:
    return OperationFailed(
        "leased-elsewhere",
        f"the checkpoints in {place} belong to a driver on {last.host}",
        f"stop it there first; if that host is gone for ever, remove {place / _FILE}",
    )
