"""The store in SQLite: what every store does, and what becomes of it in a crash."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.ports import Change, Entry, EntryKind, Store
from millrace.stores.sqlite import SqliteStore
from millrace.stores.sqlite.check import KEPT, copies
from millrace.stores.sqlite.schema import newest
from millrace.testing.conformance.store import StoreConformance
from millrace.testing.memory_store import MemoryStore

SCHEMAS = Path(__file__).parent / "schemas"


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


@settings(max_examples=40)
@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_flipped_byte_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int
) -> None:
    """Either the store is refused, with a way out, or it holds what was written."""
    file = tmp_path_factory.mktemp("flip") / "state.db"
    filled(file)
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= flip
    file.write_bytes(content)
    try:
        store = SqliteStore(file)
    except OperationFailed as failure:
        code = failure.code
    else:
        code = "as it was"
        check_filled(store)
        store.close()
    assert code in ("as it was", "state-broken", "newer-state", "no-state")


def check_filled(store: Store) -> None:
    assert store.load("job") == {f"j{n}": {"sql": "SELECT 1" * 9} for n in range(20)}
    assert [entry.detail["number"] for entry in store.entries(0, 99)] == list(range(20))


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
    assert file.read_bytes() == before


@pytest.mark.parametrize("old", sorted(SCHEMAS.glob("*.sql")), ids=lambda path: path.stem)
def test_older_schemas_are_brought_up_to_date(tmp_path: Path, old: Path) -> None:
    file = tmp_path / "state.db"
    connection = sqlite3.connect(file)
    connection.executescript(old.read_text())
    connection.close()
    killed = run(f"""
        import os
        SqliteStore(Path({str(file)!r}), told=lambda number: os.kill(os.getpid(), 9))
    """)
    assert killed in (0, -signal.SIGKILL)  # the newest needs no migration
    store = SqliteStore(file)
    assert store.load("site") == {"here": {"broker": "kafka"}}
    assert [entry.about for entry in store.entries(0, 9)] == ["apply roads"]
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
