"""What asks for secrets and refuses them: a web hook, a database, a Kafka with passwords."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Java

#: How a client of PostgreSQL asks for TLS.
_TLS = struct.pack("!i", 80877103)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Echo(ThreadingHTTPServer):
    """A hook that takes nothing, and says what it was sent: some do, to be helpful."""

    def __init__(self, says: str = "the token {} is not one of ours; you sent {}") -> None:
        super().__init__(("127.0.0.1", 0), _Echoing)
        self.says = says
        #: What was sent to prove who sends.
        self.heard: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Echoing(BaseHTTPRequestHandler):
    server: Echo

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["Content-Length"]))
        given = str(self.headers["Authorization"])
        self.server.heard.append(given)
        body = self.server.says.format(given, json.dumps(dict(self.headers))).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Database(socketserver.ThreadingTCPServer):
    """Speaks as much of PostgreSQL as it takes to ask for a password and not to accept it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Asking)
        self.heard: list[str] = []

    @property
    def port(self) -> int:
        """Where it is."""
        return int(self.server_address[1])


class _Asking(socketserver.StreamRequestHandler):
    server: Database

    def handle(self) -> None:
        """Ask, and refuse."""
        while self._message(self.rfile.read(4))[:4] == _TLS:
            self.wfile.write(b"N")
        self.wfile.write(b"R" + struct.pack("!ii", 8, 3))  # a password, as it is
        password = self._message(self.rfile.read(5)[1:])
        self.server.heard.append(password.rstrip(b"\0").decode())
        fields = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
        self.wfile.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)

    def _message(self, size: bytes) -> bytes:
        return self.rfile.read(struct.unpack("!i", size)[0] - 4)


Taker = TypeVar("Taker", Echo, Database)


@contextmanager
def served(server: Taker) -> Iterator[Taker]:
    """Serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def guarded(place: Path, java: Java, jars: Path, password: str) -> Iterator[ManagedKafka]:
    """Run a Kafka that lets in who knows the password of `admin`."""
    settings = {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{_PLAIN} username="admin" password="{password}" user_admin="{password}";'
        ),
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": "admin",
        "sasl.password": password,
    }
    broker = ManagedKafka(place, java, jars, settings=settings, client=client)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
