"""Answers to what people want to know of a site right now: logs of jobs, records of streams."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from millrace.agent.keeper import Keeper
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record
from millrace.ports.link import Question

#: The most bytes of a log, and the most records of a stream, in one answer.
MOST_BYTES = 64 << 10
MOST_RECORDS = 500


def answered(keeper: Keeper, question: Question) -> Mapping[str, Any]:
    """Return the answer to a question; raises where there is none."""
    if question.about == "log":
        return _log(keeper, question)
    if question.about == "records":
        return _records(keeper, question)
    raise OperationFailed("no-answer", f"this agent knows nothing about {question.about}")


def _log(keeper: Keeper, question: Question) -> dict[str, Any]:
    """A piece of the log of a job's driver: behind a position, or its end."""
    goal = keeper.goal.jobs.get(question.name)
    if goal is None:
        raise OperationFailed("no-job", f"job {question.name} is not at this site")
    path = keeper.workshop.log(keeper.goal.revisions[goal.revision], question.name)
    most = min(max(question.options.get("most", MOST_BYTES), 1), MOST_BYTES)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            after = question.options.get("after", -1)
            start = after if 0 <= after <= size else max(size - most, 0)
            file.seek(start)
            data = file.read(most)
    except FileNotFoundError:
        start, data = 0, b""
    return {"next": start + len(data), "text": data.decode("utf-8", "replace")}


def _records(keeper: Keeper, question: Question) -> dict[str, Any]:
    """The last records of a stream."""
    file = _file_of(keeper, question.name)
    stream = file.streams[question.name]
    log: Log = keeper.workshop.broker(file).log
    most = min(max(question.options.get("most", 10), 1), MOST_RECORDS)
    ends = log.ends(stream.address)
    start = {part: max(span.first, span.end - most) for part, span in ends.items()}
    found = list(log.read(stream.address, start, {part: span.end for part, span in ends.items()}))
    found.sort(key=lambda record: (record.time or 0, record.partition or 0, record.position or 0))
    return {"records": [_record(record) for record in found[-most:]]}


def _file_of(keeper: Keeper, stream: str) -> Pipeline:
    numbers = [number for name, number in keeper.goal.streams if name == stream]
    if not numbers:
        raise OperationFailed("no-stream", f"stream {stream} is not at this site")
    return keeper.goal.revisions[max(numbers)]


def _record(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "position": record.position,
        "time": record.time,
        "key": _text(record.key),
        "value": _text(record.value),
    }


def _text(data: bytes | None) -> dict[str, str] | str | None:
    """Bytes as text where they are some, else in base64, told apart."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
