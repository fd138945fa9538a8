"""Records as people and programs read them, and the columns of a record as far as they matter.

What can't be read as its stream's format is shown as text, and what is no text in escapes or
base64: nothing that a stream holds may stop or upset the one who looks.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from millrace.model.stream import Format
from millrace.ports import CAUSE_HEADER, ORIGIN_HEADER, Record, origin_of


@dataclass(frozen=True, slots=True)
class Columns:
    """What is taken from a stream's records: the columns of the key, and that of the time."""

    format: Format
    names: tuple[str, ...]
    key: tuple[str, ...]
    time: str | None = None

    def read(self, value: bytes) -> Mapping[str, Any] | None:
        """Return the columns of a record, or None for one that can't be read."""
        if self.format is Format.CSV:
            return _csv_row(value, self.names)
        found = _json(value) if self.format is Format.JSON else None
        return found if isinstance(found, dict) else None


def _json(value: bytes) -> Any:
    """What a JSON text says; a text that is none says nothing, as `null` does."""
    try:
        return _json_value(value)
    except (ValueError, RecursionError):
        return None


def _json_value(value: bytes) -> Any:
    return json.loads(value.decode("utf-8"), parse_constant=_refused)


def _refused(name: str) -> Any:
    raise ValueError(name)  # NaN and the infinities are no JSON


def _csv_row(value: bytes, names: tuple[str, ...]) -> Mapping[str, Any] | None:
    try:
        cells = next(csv.reader([value.decode("utf-8")], strict=True), [])
    except (ValueError, csv.Error):
        return None
    if len(cells) != len(names):
        return None
    return {name: cell or None for name, cell in zip(names, cells, strict=True)}


def key_of(fields: Mapping[str, Any] | None, names: tuple[str, ...]) -> bytes | None:
    """Return a record's key: one column as text, several as a JSON object; None without them."""
    if fields is None or not names or any(fields.get(name) is None for name in names):
        return None
    if len(names) == 1:
        value = fields[names[0]]
        text = value if isinstance(value, str) else _dumped(value)
    else:
        text = _dumped({name: fields[name] for name in names})
    return text.encode("utf-8", "backslashreplace")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def time_of(fields: Mapping[str, Any] | None, name: str | None) -> float | None:
    """Return a record's time in seconds since 1970: written as ISO 8601, or as that number."""
    value = fields.get(name) if fields is not None and name is not None else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        return moment(value).timestamp()
    except (ValueError, OverflowError):
        return None


def moment(text: str) -> datetime:
    """Return the time of an ISO 8601 text, in UTC where it names no zone; raises ValueError."""
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def record_text(record: Record, format_: Format, *, headers: bool) -> Text:
    """Return a record in one line: place, time, key, value, headers."""
    text = Text()
    text.append(f"{record.partition}/{record.position}", style="cyan")
    text.append(f"  {_time(record.time) or '-'}  ", style="dim")
    text.append("-" if record.key is None else shown(record.key), style="bold")
    text.append(f"  {_value_text(record.value, format_)}")
    if headers and record.headers:
        said = "; ".join(_header_text(name, value) for name, value in record.headers)
        text.append(f"  ({said})", style="dim")
    return text.append("\n")


def shown(value: bytes) -> str:
    """Return bytes as text in one line; what is no text, or would move a cursor, is escaped."""
    return _printable(value.decode("utf-8", "backslashreplace"))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        part if part.isprintable() else part.encode("unicode_escape").decode() for part in text
    )


def _value_text(value: bytes | None, format_: Format) -> str:
    if value is None:
        return "(no value)"
    if format_ is Format.JSON:
        try:
            return _printable(json.dumps(_json_value(value), ensure_ascii=False, allow_nan=False))
        except (ValueError, RecursionError):
            pass
    return shown(value)


def _header_text(name: str, value: bytes) -> str:
    """A header for people; ours are told in words."""
    if name == ORIGIN_HEADER:
        origin = origin_of(Record(None, headers=((name, value),)))
        if origin is None:
            return f"by {shown(value)}"
        place = f"{origin.stream} {origin.partition}/{origin.position}"
        return _printable(f"by {origin.job} from {place}")
    label = "cause" if name == CAUSE_HEADER else _printable(name)
    return f"{label}: {shown(value)}"


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record_document(record: Record, format_: Format, *, headers: bool) -> dict[str, Any]:
    """Return a record for programs.

    `encoding` stands beside a value that is not of its stream's format (`text`), or that is no text
    or of a raw stream (`base64`); `key_encoding` beside a key that is no text.
    """
    key = _coded(record.key, "key_encoding", "key")
    document: dict[str, Any] = {
        "partition": record.partition,
        "position": record.position,
        "time": _time(record.time),
        **key,
        **_value_document(record.value, format_),
    }
    if headers:
        document["headers"] = [
            {"name": name, **_coded(value, "encoding", "value")} for name, value in record.headers
        ]
    return document


def _value_document(value: bytes | None, format_: Format) -> dict[str, Any]:
    if value is None or format_ is Format.RAW:
        return _coded(value, "encoding", "value", text=False)
    if format_ is Format.JSON:
        try:
            found = _json_value(value)
            json.dumps(found, allow_nan=False)  # a number may be too large to be written again
        except (ValueError, RecursionError):
            return {"encoding": "text", **_coded(value, "encoding", "value")}
        return {"value": found}
    return _coded(value, "encoding", "value")


def _coded(value: bytes | None, how: str, name: str, *, text: bool = True) -> dict[str, Any]:
    """Bytes under a name: as text, else as base64 with a note that it is."""
    if value is None:
        return {name: None}
    if text:
        try:
            return {name: value.decode("utf-8")}
        except ValueError:
            pass
    return {name: base64.b64encode(value).decode(), how: "base64"}
