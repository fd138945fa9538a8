"""The store in SQLite: what every store does, and what becomes of it in a crash."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.ports import Change, Entry, EntryKind, Store
from millrace.stores.sqlite import SqliteStore
from millrace.stores.sqlite.body import Damaged
from millrace.stores.sqlite.check import KEPT, check_whole, copies
from millrace.stores.sqlite.schema import newest, version
from millrace.testing.conformance.store import StoreConformance
from millrace.testing.memory_store import MemoryStore

#: So many bits are flipped, one at a time.
FLIPS = int(os.environ.get("CASES", "2000"))


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore(tmp_path / "state.db")
        yield store
        store.close()


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


def filled(file: Path) -> None:
    """Make a store with something in it."""
    store = SqliteStore(file)
    for number in range(20):
        entry = Entry(EntryKind.INTENT, f"step {number}", {"number": number})
        store.commit(Change({("job", f"j{number}"): {"sql": "SELECT 1" * 9}}, entries=(entry,)))
    store.close()


def refusal(file: Path) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        SqliteStore(file)
    return caught.value


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "home" / "state.db"
    filled(file)
    SqliteStore(file).close()
    assert [oct(path.stat().st_mode & 0o777) for path in (file, *copies(file))] == ["0o600"] * 2


def test_a_backup_is_made_at_each_start_and_a_few_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file)
    assert copies(file) == []
    for _ in range(KEPT + 2):
        SqliteStore(file).close()
    found = copies(file)
    assert [path.name for path in found] == [f"state.backup-{n}.db" for n in range(3, 6)]
    shutil.copy(found[-1], file)
    store = SqliteStore(file)
    assert len(store.load("job")) == 20
    store.close()


def rows(connection: sqlite3.Connection) -> list[list[tuple[Any, ...]]]:
    """All that a file has."""
    tables = ("documents", "journal", "sqlite_sequence")
    return [connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables]  # noqa: S608


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a store that has a copy."""
    folder = tmp_path_factory.mktemp("copied")
    filled(folder / "state.db")
    SqliteStore(folder / "state.db").close()
    return folder


def test_no_flipped_bit_changes_anything_unseen(copied: Path) -> None:
    """Each is found where it is in use, whatever it is of: names, times and numbers, too."""
    content, chance = (copied / "state.db").read_bytes(), random.Random(FLIPS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        wanted = rows(connection)
    found = 0
    for _ in range(FLIPS):
        flipped = bytearray(content)
        flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(bytes(flipped))
            try:
                assert version(connection) == newest()
                check_whole(connection)
            except (sqlite3.DatabaseError, Damaged, UnicodeDecodeError, AssertionError):
                found += 1
                continue
            assert rows(connection) == wanted
    assert found > FLIPS / 10  # most of a small file is free room


@settings(max_examples=60)
@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_flipped_byte_is_refused_with_a_way_out_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, copied: Path, place: int, flip: int
) -> None:
    file = shutil.copytree(copied, tmp_path_factory.mktemp("flip") / "home") / "state.db"
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= flip
    file.write_bytes(content)
    backup, failure = copies(file)[-1], None
    try:
        store = SqliteStore(file)
    except OperationFailed as found:
        failure = found
    if failure is None:
        check_filled(store)
        store.close()
        return
    assert failure.code in ("state-broken", "newer-state")
    assert f"cp {backup} {file}" in failure.hint
    assert file.read_bytes() == content


def test_a_header_that_says_that_nobody_may_write_is_found_when_somebody_does(
    tmp_path: Path, copied: Path
) -> None:
    file = shutil.copytree(copied, tmp_path / "home") / "state.db"
    content = bytearray(file.read_bytes())
    content[18] = 9
    file.write_bytes(content)
    store = SqliteStore(file)
    with pytest.raises(OperationFailed) as caught:
        store.commit(Change({("job", "x"): {}}))
    assert caught.value.code == "state-broken"
    assert f"cp {copies(file)[-1]} {file}" in caught.value.hint
    store.close()


def check_filled(store: Store) -> None:
    assert store.load("job") == {f"j{n}": {"sql": "SELECT 1" * 9} for n in range(20)}
    entries = store.entries(0, 99)
    assert [entry.detail["number"] for entry in entries] == list(range(20))
    assert [(it.number, it.about) for it in entries] == [(n + 1, f"step {n}") for n in range(20)]


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 10_000])
def test_a_file_that_was_cut_is_refused_and_a_backup_offered(tmp_path: Path, size: int) -> None:
    file = tmp_path / "state.db"
    filled(file)
    SqliteStore(file).close()
    os.truncate(file, size)
    failure = refusal(file)
    assert failure.code == "state-broken"
    assert f"cp {copies(file)[-1]} {file}" in failure.hint
    assert file.stat().st_size == size


def test_a_file_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file)
    SqliteStore(file).close()
    file.unlink()
    failure = refusal(file)
    assert failure.code == "state-broken"
    assert f"cp {copies(file)[-1]} {file}" in failure.hint
    assert not file.exists()
    for path in copies(file):
        path.unlink()
    store = SqliteStore(file)
    assert store.load("job") == {}
    store.close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    filled(file)
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {newest() + 1}")
    connection.close()
    before = file.read_bytes()
    failure = refusal(file)
    assert failure.code == "newer-state"
    assert "newer Millrace" in failure.hint
    assert "cp" not in failure.hint  # there is no copy yet
    assert file.read_bytes() == before


def test_what_sqlite_left_beside_a_damaged_file_must_go_with_it(tmp_path: Path) -> None:
    """It would be taken for changes of the copy that is put back."""
    file = tmp_path / "state.db"
    filled(file)
    SqliteStore(file).close()
    os.truncate(file, 5000)
    beside = file.with_name("state.db-journal")
    beside.write_bytes(b"")
    failure = refusal(file)
    assert f"rm -f {beside} && cp {copies(file)[-1]} {file}" in failure.hint
    subprocess.run(failure.hint.partition(": ")[2], shell=True, check=True)  # noqa: S602
    store = SqliteStore(file)
    check_filled(store)
    store.close()


def run(code: str) -> int:
    """Run some code in a process of its own."""
    head = """
        from pathlib import Path
        from millrace.ports import Change, Entry, EntryKind
        from millrace.stores.sqlite import SqliteStore
    """
    text = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", text], check=False, timeout=60).returncode


def test_kill_at_any_moment_leaves_each_change_wholly_or_not_at_all(tmp_path: Path) -> None:
    """The documents and the journal tell the same, and what was told as done is there."""
    file, done = tmp_path / "state.db", tmp_path / "done"
    for number in range(1, 6):
        killed = run(f"""
            import os, threading, time
            store = SqliteStore(Path({str(file)!r}))
            first = len(store.entries(0, 10**6))
            threading.Timer({0.01 * number}, lambda: os.kill(os.getpid(), 9)).start()
            for n in range(first, 10**6):
                entry = Entry(EntryKind.INTENT, str(n))
                both = {{("a", "x"): {{"n": n}}, ("b", "x"): {{"n": n}}}}
                store.commit(Change(both, entries=(entry,)))
                Path({str(done)!r}).write_text(str(n))
        """)
        assert killed == -signal.SIGKILL
        store = SqliteStore(file)
        entries = store.entries(0, 10**6)
        last = len(entries) - 1
        assert [entry.about for entry in entries] == [str(n) for n in range(len(entries))]
        if entries:
            assert store.load("a") == store.load("b") == {"x": {"n": last}}
        if done.exists() and done.read_text():
            assert last - int(done.read_text()) in (0, 1)
        store.close()


def test_kill_while_the_journal_is_made_shorter(tmp_path: Path) -> None:
    """All entries are there, or those that were to stay; nothing else is touched by it."""
    whole = tmp_path / "state.db"
    store = SqliteStore(whole)
    made = [Entry(EntryKind.EVENT, f"e{n}", {"text": "x" * n}) for n in range(1, 301)]
    store.commit(Change({("job", "a"): {"n": 1}}, entries=tuple(made)))
    store.close()

    def compacted(file: Path, end: int) -> tuple[int, int]:
        """Let it be done by a process that ends itself at a moment; returns how often it looked."""
        code = run(f"""
            import os
            store, count = SqliteStore(Path({str(file)!r})), 0
            def look():
                global count
                count += 1
                if count == {end}:
                    os.kill(os.getpid(), 9)
            store._connection.set_progress_handler(look, 50)
            store.compact(201)
            Path({str(file.with_suffix(".looks"))!r}).write_text(str(count))
        """)
        looks = file.with_suffix(".looks")
        return code, int(looks.read_text()) if looks.exists() else 0

    calm, looks = compacted(Path(shutil.copy(whole, tmp_path / "calm.db")), 0)
    assert calm == 0
    left = set()
    for part in range(1, 6):
        file = Path(shutil.copy(whole, tmp_path / f"{part}.db"))
        assert compacted(file, max(looks * part // 6, 1))[0] == -signal.SIGKILL
        store = SqliteStore(file)
        numbers = [entry.number for entry in store.entries(0, 1000)]
        assert numbers in (list(range(1, 301)), list(range(201, 301)))
        assert store.load("job") == {"a": {"n": 1}}
        assert store.commit(Change(entries=(Entry(EntryKind.EVENT, "next"),))) == 301
        store.close()
        left.add(len(numbers))
    assert left == {300, 100}  # ends before and after the deletion was kept


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    """What does not fit is refused as a whole; when there is room again, it is taken."""
    file = tmp_path / "state.db"
    store = SqliteStore(file)
    store.commit(Change({("job", "small"): {"n": 1}}))
    store._connection.execute("PRAGMA max_page_count = 12")
    large = Change({("job", "large"): {"text": os.urandom(200_000).hex()}})
    with pytest.raises(OperationFailed) as caught:
        store.commit(large)
    assert caught.value.code == "disk-full"
    assert caught.value.transient
    assert store.load("job") == {"small": {"n": 1}}
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.commit(large)
    assert set(store.load("job")) == {"small", "large"}
    assert store._connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    store.close()
