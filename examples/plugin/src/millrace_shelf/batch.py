"""What becomes of a batch of records: results, dead letters and counts. Decides, does no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import OperationFailed
from millrace.model import Job, Stream
from millrace.model.policy import ErrorPolicy
from millrace.ports import CAUSE_HEADER, ORIGIN_HEADER, Fates, Record

from millrace_shelf.code import Function


@dataclass(slots=True)
class Batch:
    """The results of records, in their order."""

    #: By stream, what is to be written.
    results: dict[str, list[Record]] = field(default_factory=dict)
    fates: dict[str, int] = field(default_factory=dict)

    def count(self, fate: str) -> None:
        """Note what became of a record."""
        self.fates[fate] = self.fates.get(fate, 0) + 1

    def added(self, before: Fates) -> Fates:
        """Return a ledger with this batch."""
        now, written = self.fates, dict(before.written)
        for stream, records in self.results.items():
            written[stream] = written.get(stream, 0) + len(records)
        return Fates(
            before.read + sum(now.values()),
            before.used + now.get("used", 0),
            (before.filtered or 0) + now.get("filtered", 0),
            before.malformed + now.get("malformed", 0),
            dropped=before.dropped + now.get("dropped", 0),
            written=written,
        )


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes batches of a job's records."""

    #: The pipeline's name and the job's, with a slash between them.
    name: str
    job: Job
    function: Function
    output: Stream

    def add(self, batch: Batch, stream: Stream, record: Record) -> None:
        """Add what becomes of a record of a stream; raises where the job is to stop."""
        row = _columns(record.value)
        if row is None:
            self._bury(batch, stream, record, "malformed", "is no JSON object")
            return
        try:
            rows = self._rows(row)
            made = [self._result(item, stream, record, at) for at, item in enumerate(rows)]
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            if self.job.on_error.policy is ErrorPolicy.STOP:
                raise OperationFailed(
                    "code-failed",
                    f"job {self.job.name} failed at {stream.name}/{record.partition}/"
                    f"{record.position}: {cause}",
                    f"correct {self.job.map}, or write on_error: skip",
                ) from error
            self._bury(batch, stream, record, "dropped", cause)
            return
        batch.count("used" if made else "filtered")
        batch.results.setdefault(self.output.name, []).extend(made)

    def _rows(self, row: dict[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Call the function, again where its job says so."""
        tries = self.job.on_error.retries if self.job.on_error.policy is ErrorPolicy.RETRY else 0
        for left in range(tries, -1, -1):
            try:
                found = self.function(dict(row))
                break
            except Exception:
                if left == 0:
                    raise
        if found is None:
            return ()
        return (found,) if isinstance(found, Mapping) else found

    def _result(self, row: Mapping[str, Any], stream: Stream, record: Record, at: int) -> Record:
        value = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
        key = _key(row, self.output.key) if self.output.key else record.key
        return Record(value, key, (self._origin(stream, record, at),))

    def _bury(self, batch: Batch, stream: Stream, record: Record, fate: str, why: str) -> None:
        batch.count(fate)
        if stream.dead_letters is not None:
            headers = (self._origin(stream, record, 0), (CAUSE_HEADER, why.encode()))
            letter = Record(record.value, record.key, headers)
            batch.results.setdefault(stream.dead_letters, []).append(letter)

    def _origin(self, stream: Stream, record: Record, at: int) -> tuple[str, bytes]:
        told = f"{self.name} {stream.name} {record.partition} {record.position} {at}"
        return ORIGIN_HEADER, told.encode()


def _columns(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(value or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _key(row: Mapping[str, Any], columns: tuple[str, ...]) -> bytes | None:
    if any(row.get(name) is None for name in columns):
        return None
    if len(columns) == 1:
        return str(row[columns[0]]).encode()
    return json.dumps({name: row[name] for name in columns}, default=str).encode()
