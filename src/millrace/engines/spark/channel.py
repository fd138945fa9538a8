"""Messages between an agent and its driver: JSON, one a line, over a socket that both inherit."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of a pair of sockets; any thread may send, one thread reads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    def send(self, message: Message) -> bool:
        """Send a message whole; False where the other side is gone."""
        data = json.dumps(message).encode() + b"\n"
        with self._sending:
            try:
                self._end.sendall(data)
            except OSError:
                return False
        return True

    def messages(self) -> Iterator[Message]:
        """Yield what comes until the other side is gone."""
        with self._end.makefile("rb") as lines:
            try:
                for line in lines:
                    if line.endswith(b"\n"):  # the last one of a killed process may be cut
                        yield json.loads(line)
            except OSError:
                return

    def close(self) -> None:
        """Let the other side know that no more comes."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
