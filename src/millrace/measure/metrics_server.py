"""Metrics over HTTP, on this machine and for who holds the token."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from millrace.errors import OperationFailed
from millrace.measure.metrics import CONTENT_TYPE, Metrics

_PATH = "/metrics"


class MetricsServer:
    """Serves GET /metrics on 127.0.0.1 to whoever sends `Authorization: Bearer <token>`.

    The token stands in `token_file`, which is made, for its owner only, where it is not there.
    It serves from the moment it is made until `close`.
    """

    def __init__(self, metrics: Metrics, token_file: Path, port: int = 0) -> None:
        token = token_of(token_file)
        self._server = _Server(metrics, token, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Return where it serves, as a URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}"

    def close(self) -> None:
        """End it; returning promises that the port is free and its thread is gone."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def token_of(path: Path) -> str:
    """Return the token of a file; makes both, with mode 0600, where the file is not there.

    Raises for a file that is empty or that others may read.
    """
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _kept(path)
    except OSError as error:
        raise OperationFailed(
            "no-token", f"{path} can't be made: {error.strerror}", "give a folder that is there"
        ) from error
    token = secrets.token_urlsafe(32)
    with os.fdopen(made, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _kept(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(1024).strip()
    except (OSError, ValueError) as error:
        raise OperationFailed(
            "no-token", f"the token in {path} can't be read: {error}", f"remove {path}"
        ) from error
    if mode & 0o077:
        raise OperationFailed(
            "open-token", f"{path} has mode {mode:04o}: others may read it", f"chmod 600 {path}"
        )
    if not token:  # also for a moment while another process makes it
        raise OperationFailed(
            "no-token", f"{path} is empty", f"try again, or remove {path}", transient=True
        )
    return token


class _Server(ThreadingHTTPServer):
    def __init__(self, metrics: Metrics, token: str, port: int) -> None:
        self.metrics = metrics
        self.expected = f"Bearer {token}".encode()
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "millrace"
    sys_version = ""
    timeout = 10  # a client that says nothing does not keep a thread for ever

    def do_GET(self) -> None:
        """Answer with the metrics, or with why not."""
        if self.path.partition("?")[0] != _PATH:
            self._answer(404, b"not here; see /metrics\n")
            return
        given = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not secrets.compare_digest(given, self.server.expected):
            self._answer(401, b"a bearer token is needed\n", ("WWW-Authenticate", "Bearer"))
            return
        self._answer(200, self.server.metrics.render(), ("Content-Type", CONTENT_TYPE))

    def _answer(self, code: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Requests are no events of ours."""
