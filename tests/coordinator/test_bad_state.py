"""A coordinator whose state can't be kept or read: what runs goes on, and nothing is begun anew."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from millrace.machine.web import Refused
from millrace.stores.sqlite.check import copies
from millrace.stores.sqlite.schema import newest
from tests.coordinator.faked import FULL
from tests.coordinator.town import MORE, Town, document, town, until
from tests.stores import former

pytestmark = pytest.mark.timeout(120)
HERE = Path("home") / "coordinator"
SCHEMAS = Path(former.__file__).parent / "schemas"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


@contextmanager
def tmpfs(folder: Path) -> Iterator[None]:
    """Give a folder a disk of its own, of 8 MB; needs root."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, timeout=30, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk of our own: {done.stderr.decode()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], timeout=30, check=True)


@pytest.fixture(params=["tmpfs", "sqlite"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Town]:
    """Give a town whose coordinator has a small disk, or whose SQLite is told that it has."""
    folder = tmp_path / HERE
    folder.mkdir(parents=True, mode=0o700)
    with tmpfs(folder) if request.param == "tmpfs" else nullcontext(), town(tmp_path) as made:
        yield made


def filled(place: Town) -> Path:
    """Fill the coordinator's disk to the last byte; removing the file makes room.

    Where it is no disk of its own, the file tells the store of fakes to have no room.
    """
    ballast = place.folder / HERE / "ballast"
    if not ballast.parent.is_mount():
        full = place.folder / FULL
        full.touch()
        return full
    with ballast.open("wb", buffering=0) as out:
        for size in (65_536, 4_096, 1):
            with suppress(OSError):
                while True:
                    out.write(b"x" * size)
    return ballast


def test_a_full_disk_is_told_and_what_runs_goes_on(small: Town) -> None:
    small.up()
    small.applied(document("here"))
    before, ballast = small.runs("here"), filled(small)
    with small.client() as client:
        for _ in range(3):
            with pytest.raises(Refused) as caught:
                client.apply(document("here", MORE))
            assert (caught.value.status, caught.value.code) == (507, "disk-full")
            assert caught.value.document["type"] == "urn:millrace:problem:disk-full"
            assert "make room" in caught.value.hint
        assert client.pipeline("roads")["revision"] == 1
        assert small.runs("here") == before
    ballast.unlink()
    small.applied(document("here", MORE))
    after = small.runs("here")
    assert {name: after[name] for name in before} == before
    assert "third" in after
    assert whole(small.folder / "home")


def test_a_disk_that_fills_up_in_the_middle_of_a_change(small: Town) -> None:
    """What can't be kept is not said to be done; with room again the change ends by itself."""
    up = small.up()
    small.applied(document("here"))
    before = small.runs("here")
    (small.folder / "gate").touch()
    with small.client() as client:
        begun = client.apply(document("here", MORE))["id"]
        until(lambda: "start here third" in small.effects(), 10, lambda: client.jobs("roads"))
        ballast = filled(small)
        (small.folder / "gate").unlink()
        until(lambda: "third" in small.runs("here"), 10, small.effects)
        until(lambda: small.states()["third"] == "running", 10, small.states)
        assert not client.operation(begun, wait=2)["over"]
        assert up.alive
        ballast.unlink()
        assert client.wait(begun, 20)["state"] == "done"
    after = small.runs("here")
    assert {name: after[name] for name in before} == before
    assert len(small.effects("start")) == 3
    assert whole(small.folder / "home")


def state(home: Path) -> Path:
    return home / "coordinator" / "state.db"


def whole(home: Path) -> bool:
    with closing(sqlite3.connect(state(home))) as connection:
        answers = connection.execute("PRAGMA quick_check").fetchall()
    return bool(answers == [("ok",)])


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def flipped(file: Path) -> None:
    """One bit of a document that stands in the file as it is."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT body FROM documents WHERE kind = 'token'"
        (body,) = connection.execute(query).fetchone()
    written = body.encode() if isinstance(body, str) else bytes(body)
    content = bytearray(file.read_bytes())
    place = content.index(written) + len(written) // 2
    content[place] ^= 1
    file.write_bytes(content)


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {newest() + 1}")


@pytest.mark.parametrize("harm", [truncated, emptied, flipped, newer], ids=lambda it: it.__name__)
def test_a_state_that_can_not_be_trusted_is_refused(
    place: Town, harm: Callable[[Path], None]
) -> None:
    place.up()
    place.applied(document("here"))
    place.processes[-1].kill()
    second = place.up()  # which makes a copy of what is there
    place.await_running()
    second.kill()
    file = state(place.folder / "home")
    harm(file)
    harmed, done = file.read_bytes(), place.effects()
    third = place.up(wait=False)
    assert third.wait() == 1
    assert file.read_bytes() == harmed
    assert place.effects() == done
    backup = copies(file)[-1]
    assert f"cp {backup} {file}" in " ".join(third.said.split())
    assert ("newer Millrace" in third.said) == (harm is newer)
    file.write_bytes(backup.read_bytes())
    place.up()
    place.await_running()


def test_a_state_of_an_older_millrace_is_upgraded_and_goes_on(place: Town) -> None:
    """What it had applied runs; who started it is told, and where the former state is."""
    file = state(place.folder / "home")
    file.parent.mkdir(parents=True, mode=0o700)
    shutil.copy(SCHEMAS / "0001.db", file)
    with closing(sqlite3.connect(file)) as connection, connection:  # whose token nobody has
        connection.execute("DELETE FROM documents WHERE kind IN ('token', 'coordinator')")
    before = former.read(file)
    first = place.up()
    kept = file.with_name("state.version-1.db")
    told = f"was upgraded from version 1 to {newest()}; as it was before, it is in {kept}"
    assert told in " ".join(first.said.split())
    assert former.read(kept) == before
    until(lambda: set(place.runs("here")) == {"j0", "j1", "j2"}, 20, place.effects)
    with place.client() as client:
        assert client.pipeline("roads")["revision"] == 3
        assert [it["outcome"] for it in client.revisions("roads")] == ["undone", "done", "done"]
    first.kill()
    second = place.up()
    assert "upgraded" not in second.said
    until(lambda: set(place.runs("here")) == {"j0", "j1", "j2"}, 20, place.effects)


def test_a_state_that_a_process_holds_and_does_not_let_go_of(place: Town) -> None:
    """A coordinator that was stopped in the middle of a commit: nobody can follow it while it is.

    SQLite's lock is the process's; who comes says so, does nothing, and finds all as it was later.
    """
    place.up()
    place.applied(document("here"))
    place.processes[-1].kill()
    done = place.effects()
    with closing(sqlite3.connect(state(place.folder / "home"), isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        second = place.up(wait=False)
        assert second.wait() == 1
    assert "database is locked" in second.said
    assert "a process that stands still may hold it" in second.said
    assert place.effects() == done
    place.up()
    place.await_running()
