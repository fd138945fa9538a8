"""Files of each schema that was released: they are upgraded wholly, or left as they were."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.ports import Change, Entry, EntryKind
from millrace.stores.sqlite import SqliteStore
from millrace.stores.sqlite.check import copies
from millrace.stores.sqlite.schema import Told, newest, tables, version, written
from tests.api.house import until
from tests.stores import former, upgrading
from tests.stores.former import Content

SCHEMAS = Path(__file__).parent / "schemas"
OLD = SCHEMAS / "0001.db"
ROOT = Path(__file__).parents[2]
#: What the file of schema 1 holds.
DOCUMENTS, ENTRIES = 31, 63
ROWS = DOCUMENTS + ENTRIES
#: Where an upgrade is ended: before, between and behind its statements, and within each of them.
PLACES = [
    *(("statement", count) for count in (0, 1, 2)),
    *(("row", count) for count in (1, 20, DOCUMENTS, DOCUMENTS + 1, 70, ROWS)),
]


def content(store: SqliteStore, kinds: set[str]) -> Content:
    """All that a store has of some kinds of documents, and its journal."""
    documents = {(kind, name): it for kind in kinds for name, it in store.load(kind).items()}
    entries = store.entries(0, 10**6)
    return documents, [(it.number, it.at, it.kind.value, it.about, it.detail) for it in entries]


def now(file: Path, kinds: set[str]) -> Content:
    with closing(SqliteStore(file, warn=lambda _: None)) as store:
        return content(store, kinds)


@pytest.fixture
def was() -> Content:
    found = former.read(OLD)
    assert (len(found[0]), len(found[1])) == (DOCUMENTS, ENTRIES)
    return found


@pytest.fixture
def kinds(was: Content) -> set[str]:
    return {kind for kind, _ in was[0]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return Path(shutil.copy(OLD, folder / "state.db"))


def test_each_schema_has_its_file_and_its_migrations_stay_what_they_were() -> None:
    found = {int(path.stem): path for path in SCHEMAS.glob("*.db")}
    assert sorted(found) == list(range(1, newest() + 1))
    for number, path in found.items():
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            assert version(connection) == number
            assert written(connection) == tables(number)


@pytest.mark.parametrize("number", range(1, newest() + 1))
def test_each_schema_is_brought_up_to_date(tmp_path: Path, number: int) -> None:
    """All is there as it was, it can be changed, and a second start finds nothing to upgrade."""
    file = Path(shutil.copy(SCHEMAS / f"{number:04}.db", tmp_path / "state.db"))
    told: list[str] = []
    with closing(SqliteStore(file, warn=told.append)) as store:
        kinds = {"file", "revision", "token", "coordinator"}
        before = content(store, kinds)
        assert store.load("file")["roads/1"]["description"] == "Straße"
        assert store.commit(Change({("file", "x/1"): {}}, entries=(Entry(EntryKind.EVENT, "x"),)))
    after = now(file, kinds)
    assert after[0] == {**before[0], ("file", "x/1"): {}}
    assert after[1][:-1] == before[1]
    assert after[1][-1][0] == before[1][-1][0] + 1
    assert len(told) == (number != newest())


def test_an_upgrade_keeps_all_and_says_where_the_former_file_is(
    file: Path, was: Content, kinds: set[str]
) -> None:
    told: list[str] = []
    with closing(SqliteStore(file, warn=told.append)) as store:
        assert content(store, kinds) == was
    kept = file.with_name("state.version-1.db")
    assert told == [
        f"the state in {file} was upgraded from version 1 to {newest()}; as it was before, it is "
        f"in {kept}"
    ]
    assert former.read(kept) == was
    assert kept.stat().st_mode & 0o777 == 0o600
    for _ in range(5):  # later copies push out each other, not this one
        now(file, kinds)
    assert former.read(kept) == was
    assert len(copies(file)) == 3


def test_who_comes_from_a_newer_millrace_is_offered_the_way_back(
    file: Path, was: Content, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the copy that was made before the upgrade: all others are of the newer one by then."""
    for _ in range(5):
        now(file, kinds)
    monkeypatch.setattr("millrace.stores.sqlite.schema.migrations", lambda: {1: "..."})
    upgraded = file.read_bytes()
    with pytest.raises(OperationFailed) as caught:
        SqliteStore(file)
    assert caught.value.code == "newer-state"
    assert "start the newer Millrace" in caught.value.hint
    kept = file.with_name("state.version-1.db")
    assert f"cp {kept} {file}" in caught.value.hint
    assert file.read_bytes() == upgraded
    shutil.copy(kept, file)
    assert former.read(file) == was


def ended(file: Path, mode: str, where: str, count: int) -> int:
    """Upgrade a file in a process of its own, which ends itself there."""
    program = [sys.executable, "-m", upgrading.__name__, str(file), mode, where, str(count)]
    return subprocess.run(program, cwd=ROOT, check=False, timeout=60).returncode


def written_meanwhile(file: Path, mode: str) -> bool:
    """Whether something of an upgrade that broke off was on the disk already."""
    if mode == "wal":
        return file.with_name("state.db-wal").stat().st_size > 0
    return file.read_bytes() != OLD.read_bytes() and file.with_name("state.db-journal").exists()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_kill_in_the_middle_leaves_a_file_that_both_can_use(
    tmp_path: Path, was: Content, kinds: set[str], mode: str
) -> None:
    """The former Millrace finds all that it had and goes on; or the upgrade is made again."""

    def tried(place: tuple[str, int]) -> bool:
        folder = tmp_path / f"{place[0]}-{place[1]}"
        folder.mkdir()
        file = Path(shutil.copy(OLD, folder / "state.db"))
        assert ended(file, mode, *place) == -signal.SIGKILL, place
        half = written_meanwhile(file, mode)
        other = Path(shutil.copytree(folder, tmp_path / f"{folder.name}-new")) / "state.db"
        assert former.read(file) == was, place
        former.write(file, "later")
        assert former.read(file)[1][-1][3] == "later"
        assert now(file, {"note"})[0] == {("note", "later"): {"about": "later"}}
        assert now(other, kinds) == was, place
        assert former.read(other.with_name("state.version-1.db")) == was, place
        return half

    with ThreadPoolExecutor(2) as pool:
        half = dict(zip(PLACES, pool.map(tried, PLACES), strict=True))
    late = [("row", 70), ("row", ROWS), ("statement", 2)]
    assert all(half[place] for place in late), half  # or it was in the middle of nothing


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_kill_behind_an_upgrade_leaves_it_made(
    file: Path, was: Content, kinds: set[str], mode: str
) -> None:
    assert ended(file, mode, "kept", 0) == -signal.SIGKILL
    with closing(sqlite3.connect(file)) as connection:
        assert version(connection) == newest()
    assert now(file, kinds) == was


def test_kill_at_the_first_start_leaves_nothing_that_is_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert ended(file, "delete", "statement", 1) == -signal.SIGKILL
    assert not file.exists()
    assert now(file, {"site"}) == ({}, [])


def test_who_comes_in_the_middle_of_an_upgrade_waits_for_it(
    file: Path, was: Content, kinds: set[str]
) -> None:
    begun, go_on, again = threading.Event(), threading.Event(), list[int]()

    def told(_: int, __: int) -> None:
        begun.set()
        assert go_on.wait(20)

    def opened(told: Told) -> Content:
        with closing(SqliteStore(file, told=told, warn=lambda _: None)) as store:
            return content(store, kinds)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(opened, told)
        assert begun.wait(20)
        second = pool.submit(opened, lambda number, _: again.append(number))
        until(lambda: len(copies(file)) == 2)  # it has looked at the file as it was
        go_on.set()
        assert first.result(20) == second.result(20) == was
    assert again == []


def test_several_may_open_a_file_at_once(file: Path, was: Content, kinds: set[str]) -> None:
    gate = threading.Barrier(4)

    def opened(_: int) -> Content:
        gate.wait(10)
        return now(file, kinds)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(opened, range(4))) == [was] * 4


def test_a_former_file_that_is_damaged_is_not_upgraded(file: Path) -> None:
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        (body,) = connection.execute("SELECT body FROM documents WHERE name = 'lease'").fetchone()
    content[content.index(body) + len(body) // 2] ^= 4
    file.write_bytes(content)
    with pytest.raises(OperationFailed) as caught:
        SqliteStore(file)
    assert caught.value.code == "state-broken"
    assert file.read_bytes() == content
