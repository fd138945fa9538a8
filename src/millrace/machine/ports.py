"""Ports from the operating system."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int, wanted: tuple[int, ...] = (), host: str = "127.0.0.1") -> list[int]:
    """Return ports that are free now: the wanted ones where they are, else others.

    Between this and their use another program may take one; whoever listens must prove that the
    listener is theirs.
    """
    found = []
    with ExitStack() as stack:
        for index in range(count):
            taken = stack.enter_context(socket.socket())
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = wanted[index] if index < len(wanted) else 0
            try:
                taken.bind((host, 0 if port in found else port))
            except OSError:
                taken.bind((host, 0))
            found.append(int(taken.getsockname()[1]))
    return found
