"""What a receiver must know of its session with the broker after a restart of its own.

Of QoS 2 the broker sends a message again, under the same id, until we promise to have it, and then
lets go of the id. Which ids we have and it has not let go of is kept in a file beside the spool,
each with the position of its message, and written before the message is durable: what has no such
position in the spool yet never came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.brokers.mqtt.connection import Connection
from millrace.brokers.mqtt.settings import parsed
from millrace.errors import OperationFailed
from millrace.spool.failures import told


@dataclass(slots=True)
class Session:
    """The file, what was subscribed with which QoS, and the ids with their positions."""

    file: Path
    topic: str | None = None
    qos: int = -1
    held: dict[int, int] = field(default_factory=dict)
    #: False after the disk did not take it.
    saved: bool = True

    @classmethod
    def load(cls, file: Path, end: int) -> Session:
        """Return what is known; ids whose messages did not come into the spool are forgotten."""
        try:
            known = json.loads(file.read_text("utf-8"))
            session = cls(file, known["topic"], known["qos"])
            held = {int(mid): int(position) for mid, position in known["held"].items()}
        except FileNotFoundError:
            return cls(file)
        except (ValueError, KeyError, TypeError) as error:
            raise OperationFailed(
                "session-damaged",
                f"{file} can't be read: {error}",
                "remove it: messages of QoS 2 that are on their way now may come twice then",
            ) from error
        session.held = {mid: position for mid, position in held.items() if position < end}
        if session.held != held:
            session.save()
        return session

    def save(self) -> None:
        """Write it down; it is durable when this returns."""
        self.saved = False
        fresh = self.file.with_name(f"{self.file.name}.new")
        known = {"topic": self.topic, "qos": self.qos, "held": self.held}
        with told(self.file.parent):
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(known, file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.file)
            folder = os.open(self.file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self.saved = True


def forget(settings: Mapping[str, str], client_id: str) -> None:
    """End the session of a receiver for good; what the broker held for it goes.

    A receiver that still runs with this id is sent away. None there is no error.
    """
    connection = Connection(parsed(settings), client_id, keep=False)
    try:
        connection.open()
    finally:
        connection.close()
