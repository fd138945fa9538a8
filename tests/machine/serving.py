"""A small server that answers what a test tells it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Asked(BaseHTTPRequestHandler):
    """A request; `server.script` says what is answered."""

    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        self.server.seen.append((self.command, self.path, self.headers))  # type: ignore[attr-defined]
        self.server.script(self)  # type: ignore[attr-defined]

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names are the library's

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(
        self, status: int, document: Any, kind: str = "application/json", **headers: str
    ) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True


Script = Callable[[Asked], None]


class Server(ThreadingHTTPServer):
    """A server whose answers a test writes."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.script = script
        self.seen: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@contextmanager
def serving(script: Script, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    with Server(script) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
