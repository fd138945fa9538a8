"""Requests have limits, whatever answers; what is no Flink is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from millrace.engines.flink.calls import Calls, Refused, address_of
from millrace.errors import OperationFailed
from millrace.machine import free_ports


class Answers(BaseHTTPRequestHandler):
    """Answers by the path that is asked for."""

    def do_GET(self) -> None:
        match self.path:
            case "/base/page":
                self._say(200, b"<html>")
            case "/base/refused":
                self._say(400, b'{"errors": ["no", "java.io.IOException: because"]}')
            case "/base/who":
                self._say(200, f'"{self.headers["Authorization"]}"'.encode())
            case "/base/drip":
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                with suppress(ConnectionError):  # who asked has gone
                    for _ in range(100):
                        self.wfile.write(b" ")
                        time.sleep(0.02)
            case _:
                self.close_connection = True  # without an answer

    def _say(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/base/"
        finally:
            server.shutdown()
            thread.join(10)


def failure(calls: Calls, path: str, seconds: float = 5.0) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        calls.get(path, seconds=seconds)
    return caught.value


def test_what_answers_may_be_anything() -> None:
    with served() as url:
        calls = Calls(address_of(url))
        assert failure(calls, "/page").code == "no-flink"
        refused = failure(calls, "/refused")
        assert isinstance(refused, Refused)
        assert (refused.status, refused.said) == (400, "no\njava.io.IOException: because")
        broken = failure(calls, "/nothing")
        assert (broken.code, broken.transient) == ("unreachable", True)


def test_bytes_that_drip_in_do_not_put_the_limit_off() -> None:
    with served() as url:
        began = time.monotonic()
        slow = failure(Calls(address_of(url)), "/drip", 0.2)
        assert time.monotonic() - began < 1.5
        assert "in time" in slow.message


def test_a_password_goes_to_the_cluster_and_into_no_text() -> None:
    with served() as url:
        address = address_of(url, {"user": "u", "password": "secret"})
        assert Calls(address).get("/who") == "Basic dTpzZWNyZXQ="
        assert "dTpzZWNyZXQ" not in repr(address)
    with pytest.raises(OperationFailed, match="use https"):
        address_of("http://10.0.0.7:8081/", {"user": "u", "password": "secret"})


def test_a_cluster_that_is_not_there_may_come() -> None:
    port = free_ports(1)[0]
    away = failure(Calls(address_of(f"http://127.0.0.1:{port}")), "/overview")
    assert (away.code, away.transient) == ("unreachable", True)
    assert "JobManager" in away.hint


@pytest.mark.parametrize(
    "url", ["10.0.0.7:8081", "ftp://h", "http://u:p@h:1", "http://h:x", "http://"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        address_of(url)
    assert caught.value.code == "bad-address"
    assert "u:p" not in caught.value.message


def test_an_unknown_option_is_told_with_the_nearest() -> None:
    with pytest.raises(OperationFailed, match="savepoints"):
        address_of("http://h:1", {"savepoint": "/x"})
