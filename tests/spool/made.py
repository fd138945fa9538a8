"""Records, folders and looks that the tests of the spool share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from millrace.ports import Record
from millrace.spool import SpoolReader, SpoolWriter

TIMES = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=20)), max_size=3).map(tuple)
RECORDS = st.builds(
    Record,
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=20),
    headers=HEADERS,
    time=TIMES,
)


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory, where there is one: a property looks at many, and syncs often."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "spool"


def numbered(start: int, count: int, size: int = 0) -> list[Record]:
    """Records whose values say their positions."""
    return [
        Record(str(position).encode().ljust(size, b"."), time=position)
        for position in range(start, start + count)
    ]


def placed(records: Sequence[Record], start: int = 0) -> list[Record]:
    """Records as they are read."""
    return [replace(record, partition=0, position=start + n) for n, record in enumerate(records)]


def all_of(folder: Path) -> list[Record]:
    """All that a reader can read."""
    reader = SpoolReader(folder)
    return list(reader.read(reader.span().first))


def kept(folder: Path, *commits: Sequence[Record], segment_bytes: int = 1 << 20) -> int:
    """Write some commits and close; returns the end."""
    writer = SpoolWriter(folder, segment_bytes=segment_bytes)
    for records in commits:
        writer.append(records)
        writer.commit()
    writer.close()
    return writer.end


def segments(folder: Path) -> list[Path]:
    """The files of a spool that hold records."""
    return sorted(folder.glob("*.segment"))
