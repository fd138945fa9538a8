"""Files of Parquet whose rows are records; a file is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.engines.spark.outside.feed import (
    MOST_ROWS,
    Ends,
    Entry,
    Part,
    SourceFailed,
    at_name,
    now,
)
from millrace.engines.spark.outside.numbering import Numbering, gone
from millrace.engines.spark.outside.values import json_of


class Tables:
    """A feed: a part is a file, a position a row. A file that is not whole yet waits."""

    def __init__(self, name: str, files: Numbering, *, lossy: bool = False) -> None:
        """With `lossy`, what is gone before it was read is left out."""
        self._name = name
        self._files = files
        self._lossy = lossy
        self._frozen: frozenset[int] | None = None

    def begin(self) -> Ends:
        """Return the beginning of all files."""
        return {self._name: {}}

    def latest(self, start: Ends) -> Ends:
        """Return the ends of all files, up to about as many rows as a batch has."""
        rows, left = dict(start[self._name]), MOST_ROWS
        for number, file in self._files.found().items():
            late = self._frozen is not None and number not in self._frozen
            if str(number) in rows or left <= 0 or late:
                continue
            try:
                found = pq.read_metadata(file.path).num_rows
            except (pa.ArrowInvalid, FileNotFoundError):
                continue  # the end, where the rows are told, is not written yet
            rows[str(number)] = found
            left -= found
        if rows == start[self._name]:
            return start
        return {self._name: rows, at_name(self._name): {"0": now()}}

    def freeze(self) -> None:
        """Take the files that are there now."""
        self._frozen = frozenset(self._files.found())

    def close(self) -> None:
        """Nothing is open between calls."""

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the files that are new."""
        at = end.get(at_name(self._name), {}).get("0", 0)
        before = start[self._name]
        return [
            Part(int(part), 0, {"rows": rows, **self._files.about(int(part))}, at)
            for part, rows in end[self._name].items()
            if part not in before
        ]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the rows of a file as JSON."""
        try:
            with self._files.opened(part.about) as file:
                position = part.first
                for batch in pq.ParquetFile(file).iter_batches():
                    for row in batch.to_pylist(maps_as_pydicts="lossy"):
                        yield Entry(position, json_of(row), part.at)
                        position += 1
            if position != part.about["rows"]:
                raise gone(part.about["path"])
        except SourceFailed:
            if not self._lossy:
                raise
