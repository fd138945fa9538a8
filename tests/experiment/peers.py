"""Servers and clients at the two ends of a link."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT = 20.0
Handler = Callable[[socket.socket], None]


@contextmanager
def server(handle: Handler) -> Iterator[str]:
    """Serve each connection in a thread for the time of a block; gives the address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        connection.settimeout(LIMIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                handle(connection)
            except OSError:  # the other side went
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(LIMIT)
        for thread in threads:
            thread.join(LIMIT)


def echo(connection: socket.socket) -> None:
    """Send all back, then end."""
    while data := connection.recv(65536):
        connection.sendall(data)


def sink(connection: socket.socket) -> None:
    """Take all, then say how much it was."""
    total = 0
    while data := connection.recv(65536):
        total += len(data)
    connection.sendall(total.to_bytes(8, "big"))


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    found = socket.create_connection((host, int(port)), timeout=LIMIT)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = connection.recv(size - len(found))
        assert data, f"ended after {len(found)} of {size} bytes"
        found += data
    return found


def everything(connection: socket.socket) -> bytes:
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


def round_trips(address: str, count: int) -> list[float]:
    """How long each of some requests took, on a connection that is open already."""
    found = []
    with connect(address) as client:
        for _ in range(count + 1):
            began = time.perf_counter()
            client.sendall(b"?")
            exactly(client, 1)
            found.append(time.perf_counter() - began)
    return found[1:]  # the first waits for the handshake


def throughput(address: str, size: int) -> float:
    """How many bytes a second reach a `sink`, from the first sent to all received."""
    with connect(address) as client:
        client.sendall(b"?")  # beyond the handshake
        began = time.perf_counter()
        client.sendall(bytes(size))
        client.shutdown(socket.SHUT_WR)
        assert int.from_bytes(exactly(client, 8), "big") == size + 1
        return size / (time.perf_counter() - began)
