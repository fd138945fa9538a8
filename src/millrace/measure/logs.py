"""Structured logs: a JSON object a line, without secrets, by the standard library's logging."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from millrace.model.types import ADDRESS_SECRET, SECRET_WORDS

#: The logger under which all of Millrace logs.
ROOT: Final = "millrace"
HIDDEN: Final = "***"
_FIELDS: Final = "millrace_fields"
_DEEPEST: Final = 20


def log_event(logger: logging.Logger, name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields: `log_event(logger, "job started", job="clean", pid=12)`."""
    logger.log(level, "%s", name, extra={_FIELDS: fields})


def log_to(path: Path, level: int = logging.INFO) -> LogFile:
    """Append all that Millrace logs from `level` on to a file, until the result is closed."""
    return LogFile(path, level)


class LogFile(logging.FileHandler):
    """The handler of a file; `close` takes it off the logger and leaves that as it was."""

    def __init__(self, path: Path, level: int) -> None:
        # What UTF-8 can't say becomes an escape, which JSON reads back.
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._logger = logging.getLogger(ROOT)
        self._level_before = self._logger.level
        self.setLevel(level)
        self.setFormatter(JsonLines())
        self._logger.addHandler(self)
        if self._logger.getEffectiveLevel() > level:
            self._logger.setLevel(level)

    def close(self) -> None:
        """End the file; called again it does nothing."""
        if self in self._logger.handlers:
            self._logger.removeHandler(self)
            self._logger.setLevel(self._level_before)
        super().close()


class JsonLines(logging.Formatter):
    """Makes `{"time": ..., "level": ..., "event": ..., <fields>}` of a log record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a field named like one of the first three gets a `_` behind it."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        document: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _plain(record.getMessage()),
        }
        fields = _plain(getattr(record, _FIELDS, {}))
        document |= {name + "_" if name in document else name: fields[name] for name in fields}
        if record.exc_info:
            document.setdefault("exception", _plain(self.formatException(record.exc_info)))
        return json.dumps(document, ensure_ascii=False)


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can hold it, with what looks secret hidden."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {
            str(key): HIDDEN if SECRET_WORDS.search(str(key)) else _plain(item, depth + 1)
            for key, item in value.items()
        }
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return ADDRESS_SECRET.sub(f"{HIDDEN}@", str(value))
