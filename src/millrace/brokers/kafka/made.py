"""Which topics of a broker that is not ours Millrace made: only these are its to remove.

A topic is noted when it is there. One of which a crash kept the note stays when its stream goes:
the other way round somebody's records might go.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock


class MadeTopics:
    """The names, a line each, in a file. Streams are made side by side: any thread may call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writing = Lock()

    def __contains__(self, topic: str) -> bool:
        """Whether Millrace made a topic."""
        return topic in self._names()

    def add(self, topics: set[str]) -> None:
        """Note topics that were just made."""
        if topics:
            with self._writing:
                self._write(self._names() | topics)

    def remove(self, topic: str) -> None:
        """Note that a topic is gone."""
        with self._writing:
            names = self._names()
            if topic in names:
                self._write(names - {topic})

    def _names(self) -> set[str]:
        return set(self._file.read_text("utf-8").split()) if self._file.exists() else set()

    def _write(self, names: set[str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")
        fresh.replace(self._file)
