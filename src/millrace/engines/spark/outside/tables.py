"""Files of Parquet whose rows are records; a file is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson
import pyarrow.parquet as pq

from millrace.engines.spark.outside.feed import MOST_ROWS, Ends, Entry, Part, at_name, now
from millrace.engines.spark.outside.numbering import Numbering


class Tables:
    """A feed: a part is a file, a position a row."""

    def __init__(self, name: str, files: Numbering) -> None:
        self._name = name
        self._files = files
        self._frozen: frozenset[int] | None = None

    def begin(self) -> Ends:
        """Return the beginning of all files."""
        return {self._name: {}}

    def latest(self, start: Ends) -> Ends:
        """Return the ends of all files, up to about as many rows as a batch has."""
        rows, left = dict(start[self._name]), MOST_ROWS
        for number, path in self._files.found().items():
            late = self._frozen is not None and number not in self._frozen
            if str(number) not in rows and left > 0 and not late:
                rows[str(number)] = pq.ParquetFile(path).metadata.num_rows
                left -= rows[str(number)]
        if rows == start[self._name]:
            return start
        return {self._name: rows, at_name(self._name): {"0": now()}}

    def freeze(self) -> None:
        """Take the files that are there now."""
        self._frozen = frozenset(self._files.found())

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the files that are new."""
        at = end.get(at_name(self._name), {}).get("0", 0)
        before = start[self._name]
        return [Part(int(part), 0, {}, at) for part in end[self._name] if part not in before]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the rows of a file as JSON."""
        position = part.first
        for batch in pq.ParquetFile(self._files.path(part.number)).iter_batches():
            for row in batch.to_pylist():
                yield Entry(position, orjson.dumps(row, default=str), part.at)
                position += 1
