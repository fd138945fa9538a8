"""Programs and hooks: what is taken, what is not, and that nothing secret is told."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from millrace.engines.spark.outside.command import run
from millrace.engines.spark.outside.hook import bearer, post
from millrace.engines.spark.outside.undone import Undone
from millrace.errors import OperationFailed

HEADERS = {"Authorization": "Bearer sesame"}


class Server(ThreadingHTTPServer):
    """Answers with one code, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, code: int, location: str = "", body: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.code, self.location, self.body = code, location, body
        self.got: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret-path?key=hidden"


class _Answer(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.command, data))
        self.send_response(self.server.code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body) or 10**6))
        self.end_headers()
        self.wfile.write(self.server.body)
        if not self.server.body:  # more is announced, and never comes
            time.sleep(20)

    do_GET = do_POST  # noqa: N815 - the library's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.socket.close()
        thread.join(10)


def test_a_batch_is_taken_whatever_else_is_said() -> None:
    with serving(Server(204)) as server:
        began = time.monotonic()
        post(server.url, b"{}\n", HEADERS, 15)
        assert time.monotonic() - began < 10
        assert server.got == [("POST", b"{}\n")]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_hook_that_sends_elsewhere_is_refused(code: int) -> None:
    with (
        serving(Server(200, body=b"x")) as other,
        serving(Server(code, other.url, b"x")) as server,
    ):
        with pytest.raises(Undone) as found:
            post(server.url, b"{}\n", HEADERS, 15)
        assert f"answered {code} to http://127.0.0.1:{other.server_port}; write" in str(found.value)
        assert "hidden" not in str(found.value)
        assert (len(server.got), other.got) == (1, [])


def test_another_path_of_the_same_host() -> None:
    with (
        serving(Server(301, "/elsewhere/", b"x")) as server,
        pytest.raises(Undone, match="301 to another path of http://127"),
    ):
        post(server.url, b"{}\n", HEADERS, 15)


def test_what_a_hook_answers_is_told_and_its_address_is_not() -> None:
    with serving(Server(503, body=b"too\nbusy")) as server:
        with pytest.raises(Undone) as found:
            post(server.url, b"{}\n", HEADERS, 15)
        assert str(found.value) == f"http://127.0.0.1:{server.server_port} answered 503: too busy"
    with pytest.raises(Undone, match="can't be reached") as found:
        post(server.url, b"{}\n", HEADERS, 15)
    assert "hidden" not in str(found.value)


def test_the_whole_exchange_has_one_limit() -> None:
    """A server that says a byte now and then does not hold up the job."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            with listening.accept()[0] as peer, suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
                    peer.sendall(bytes([byte]))
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Undone, match="longer than 1 s"):
            post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}", {}, 1.0)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("url", ["http://127.0.0.1/hid den", "http://[hidden/", "http://x:hidden/"])
def test_an_address_that_is_none_is_not_told(url: str) -> None:
    with pytest.raises(Undone) as found:
        post(url, b"{}", HEADERS, 15)
    assert "hid" not in str(found.value)


@pytest.mark.parametrize("token", ["two\nlines", "é", "", "nul\0"])
def test_a_token_that_is_none_is_not_told(token: str) -> None:
    with pytest.raises(OperationFailed, match=r"jobs\.j\.write\.token") as found:
        bearer(token, "jobs.j.write.token")
    assert not token or token not in str(found.value)
    assert bearer("sesame", "") == "Bearer sesame"


def shell(text: str, place: Path, seconds: float, data: bytes = b"") -> None:
    run(["/bin/sh", "-c", text], data, place, seconds, {**os.environ, "TOLD": "yes"})


def test_a_program_gets_the_batch_and_what_it_is_told(tmp_path: Path) -> None:
    data = b"line\n" * 100_000
    shell('cat > got; printf %s "$TOLD" > told; yes | head -c 1000000', tmp_path, 30, data)
    assert (tmp_path / "got").read_bytes() == data
    assert (tmp_path / "told").read_text() == "yes"


def test_what_a_program_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    shell("sleep 4 & exit 0", tmp_path, 30)
    assert time.monotonic() - began < 3


def test_a_program_that_takes_too_long_ends_with_all_it_started(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    late = "import time; time.sleep(3); open('late', 'w')"
    with pytest.raises(Undone, match=r"took longer than 0\.5 s"):
        run([sys.executable, "-c", code, late], b"", tmp_path, 0.5, os.environ)
    time.sleep(3.5)
    assert not (tmp_path / "late").exists()


def test_how_a_program_failed_is_told(tmp_path: Path) -> None:
    with pytest.raises(Undone, match=r"ended with 3: out both words$"):
        shell("echo out >&1; echo both words >&2; exit 3", tmp_path, 30)
    with pytest.raises(Undone, match="can't be run: No such file"):
        run([str(tmp_path / "none")], b"", tmp_path, 30, {})


@pytest.mark.parametrize("name", ["127.1", "2130706433", "0x7f000001", "0"])
def test_a_name_that_stands_for_the_machine_itself_is_refused(name: str) -> None:
    """Who may send there writes the address as it is; another name may be somebody's trick."""
    with serving(Server(200, body=b"x")) as server:
        with pytest.raises(Undone, match="stands for an address of the machine itself"):
            post(f"http://{name}:{server.server_port}/x", b"{}\n", HEADERS, 15)
        assert server.got == []
