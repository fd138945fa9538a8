"""For which receivers a broker keeps what comes: it can't be asked without disturbing them."""

from __future__ import annotations

from pathlib import Path


class Readers:
    """Their names and topics, a line each, in a file; without one only as long as this is there."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._topics: dict[str, str] = {}
        if file is not None and file.exists():
            lines = file.read_text("utf-8").splitlines()
            self._topics = dict(line.split("\t", 1) for line in lines)

    def __contains__(self, name: str) -> bool:
        """Whether a receiver has its session."""
        return name in self._topics

    def of(self, topic: str) -> list[str]:
        """Return the receivers that have sessions for a topic."""
        return sorted(name for name, its in self._topics.items() if its == topic)

    def add(self, name: str, topic: str) -> None:
        """Note that a receiver has its session now."""
        self._topics[name] = topic
        self._write()

    def remove(self, name: str) -> None:
        """Note that a receiver has none any more."""
        if self._topics.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._file.with_name(f"{self._file.name}.new")
            text = "".join(f"{name}\t{topic}\n" for name, topic in sorted(self._topics.items()))
            fresh.write_text(text, "utf-8")
            fresh.replace(self._file)
