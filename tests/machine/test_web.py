"""Requests to a coordinator, answered by a small server that does what a test tells it."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.machine.web import Limits, Refused, Web, at
from tests.machine.serving import Asked, Script, Server, serving

TOKEN = "mr_abcdefgh_" + "s" * 43
QUICK = Limits(connect=1.0, answer=1.0, silence=0.5, again=(0.01, 0.04))


@contextmanager
def web_of(script: Script, limits: Limits = QUICK) -> Iterator[tuple[Web, Server]]:
    with serving(script) as server, Web(server.url, TOKEN, limits=limits) as web:
        yield web, server


def test_what_is_sent_and_what_comes_back() -> None:
    def script(asked: Asked) -> None:
        asked.answer(202, {"got": json.loads(asked.body() or b"null")}, ETag='"3"')

    with web_of(script) as (web, server):
        answer = web.put("/things/a", {"é": 1}, {"If-Match": '"2"'})
        assert (answer.status, answer.document) == (202, {"got": {"é": 1}})
        assert answer.headers["etag"] == '"3"'
        assert web.get("/things", {"limit": 3, "cursor": None}).document == {"got": None}
        web.post("/things", [])
        web.delete("/things/a")
        methods = [(method, path) for method, path, _ in server.seen]
        assert methods == [
            ("PUT", "/api/v1/things/a"),
            ("GET", "/api/v1/things?limit=3"),
            ("POST", "/api/v1/things"),
            ("DELETE", "/api/v1/things/a"),
        ]
        assert server.seen[0][2]["Authorization"] == f"Bearer {TOKEN}"
        assert server.seen[0][2]["If-Match"] == '"2"'


def test_a_connection_is_used_again() -> None:
    ports = set()

    def script(asked: Asked) -> None:
        ports.add(asked.client_address[1])
        asked.answer(200, {})

    with web_of(script) as (web, _):
        for _ in range(3):
            web.get("/x")
    assert len(ports) == 1


def test_a_way_that_was_closed_is_told_as_such() -> None:
    """Threads that still ask when a program ends must not die of it."""
    with serving(lambda asked: asked.answer(200, {})) as server:
        web = Web(server.url, TOKEN, limits=QUICK)
        web.close()
        with pytest.raises(OperationFailed) as failed:
            web.get("/x")
    assert failed.value.code == "closed"
    assert not failed.value.transient


def test_names_may_hold_any_character() -> None:
    assert at("pipelines", "a/b c?é") == "/pipelines/a%2Fb%20c%3F%C3%A9"
    with web_of(lambda asked: asked.answer(200, {})) as (web, server):
        web.get(at("pipelines", "a/b"))
        assert server.seen[0][1] == "/api/v1/pipelines/a%2Fb"


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (404, "no-job", False),
        (409, "busy", True),
        (409, "served-here", False),
        (412, "moved", False),
        (429, "too-many", True),
        (503, "superseded", True),
        (504, "no-answer", True),
    ],
)
def test_a_problem_is_told_as_the_coordinator_said_it(
    status: int, code: str, transient: bool
) -> None:
    problem = {"status": status, "detail": "it can't be", "code": code, "hint": "x", "revision": 7}
    with (
        web_of(lambda a: a.answer(status, problem, "application/problem+json")) as (web, _),
        pytest.raises(Refused) as caught,
    ):
        web.get("/x")
    refused = caught.value
    assert (refused.status, refused.code, refused.message, refused.hint) == (
        status,
        code,
        "it can't be",
        "x",
    )
    assert refused.transient is transient
    assert refused.document["revision"] == 7


def test_an_error_of_another_server_is_told_by_its_status() -> None:
    with (
        web_of(lambda a: a.answer(502, b"<html>", "text/html")) as (web, server),
        pytest.raises(Refused, match=f"{server.url} answered 502 Bad Gateway") as caught,
    ):
        web.get("/x")
    assert (caught.value.code, caught.value.transient) == ("http-502", True)


@pytest.mark.parametrize("content", [b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_no_coordinator(content: bytes) -> None:
    with (
        web_of(lambda asked: asked.answer(200, content)) as (web, _),
        pytest.raises(OperationFailed, match="no coordinator") as caught,
    ):
        web.get("/x")
    assert caught.value.hint


def test_redirects_are_not_followed() -> None:
    with web_of(lambda asked: asked.answer(302, b"", Location="http://elsewhere/")) as (web, s):
        with pytest.raises(OperationFailed, match="elsewhere") as caught:
            web.get("/x")
        assert len(s.seen) == 1
    assert caught.value.code == "moved"


def test_nobody_there_is_found_at_once() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with (
        Web(f"http://127.0.0.1:{port}", TOKEN, limits=QUICK) as web,
        pytest.raises(OperationFailed, match="can't be reached") as caught,
    ):
        web.get("/x")
    assert (caught.value.code, caught.value.transient) == ("unreachable", True)
    assert "--server" in caught.value.hint
    assert time.monotonic() - begun < 1


def test_who_never_answers_is_given_up() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        begun = time.monotonic()
        with (
            Web(f"http://127.0.0.1:{silent.getsockname()[1]}", TOKEN, limits=QUICK) as web,
            pytest.raises(OperationFailed) as caught,
        ):
            web.get("/x", seconds=0.3)
    assert caught.value.code == "unreachable"
    assert 0.2 < time.monotonic() - begun < 3


def test_an_answer_that_drips_does_not_put_the_limit_off() -> None:
    def script(asked: Asked) -> None:
        asked.send_response(200)
        asked.send_header("Content-Length", "1000")
        asked.end_headers()
        for _ in range(100):
            asked.wfile.write(b" ")
            time.sleep(0.05)

    begun = time.monotonic()
    with web_of(script) as (web, _), pytest.raises(OperationFailed, match="too slowly") as caught:
        web.get("/x", seconds=0.4)
    assert caught.value.code == "unreachable"
    assert time.monotonic() - begun < 3


def test_a_read_is_tried_again_where_a_connection_broke_and_a_change_is_not() -> None:
    def script(asked: Asked) -> None:
        if len(asked.server.seen) in (1, 3):  # type: ignore[attr-defined]
            asked.close_connection = True
            asked.connection.shutdown(socket.SHUT_RDWR)
            return
        asked.answer(200, {"ok": True})

    with web_of(script) as (web, server):
        assert web.get("/x").document == {"ok": True}
        with pytest.raises(OperationFailed, match="broke off") as caught:
            web.put("/x", {})
        assert len(server.seen) == 3
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize(
    "url", ["", "host:80", "ftp://x", "http://", "http://u:secret@h", "http://h/?q", "http://[x"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(OperationFailed, match="no address") as caught:
        Web(url, TOKEN)
    assert "secret" not in str(caught.value)


def test_the_token_is_in_no_text() -> None:
    with Web("http://127.0.0.1:1", TOKEN, limits=QUICK) as web:
        with pytest.raises(OperationFailed) as caught:
            web.get("/x")
        texts = repr(web) + str(web) + repr(caught.value) + str(caught.value)
    assert TOKEN not in texts
    for wrong in ("", "a b", "a\nb", "é"):
        with pytest.raises(OperationFailed, match="no token") as bad:
            Web("http://127.0.0.1:1", wrong)
        assert not wrong or wrong not in str(bad.value)


def test_an_artifact_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000

    def script(asked: Asked) -> None:
        if asked.path.endswith("cut"):
            asked.send_response(200)
            asked.send_header("Content-Length", str(len(content)))
            asked.end_headers()
            asked.wfile.write(content[:1000])
            asked.close_connection = True
        elif asked.path.endswith("gone"):
            asked.answer(404, {"code": "no-artifact"})
        else:
            asked.answer(200, content, "application/octet-stream")

    with web_of(script) as (web, _):
        web.stream_to("/artifacts/good", tmp_path / "good")
        assert (tmp_path / "good").read_bytes() == content
        assert b"".join(web.pieces("/artifacts/good")) == content
        for name in ("cut", "gone"):
            with pytest.raises(OperationFailed):
                web.stream_to(f"/artifacts/{name}", tmp_path / name)
        assert web.has("/artifacts/good")
        assert not web.has("/artifacts/gone")
    assert [path.name for path in tmp_path.iterdir()] == ["good"]


def test_uploads_are_sent_as_they_are(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(content)
    got = []

    def script(asked: Asked) -> None:
        got.append(asked.body())
        asked.answer(201, {})

    with web_of(script) as (web, server):
        assert web.upload("/artifacts/x", tmp_path / "file").status == 201
        web.upload("/artifacts/x", content)
        assert server.seen[0][2]["Content-Length"] == str(len(content))
        assert "Transfer-Encoding" not in server.seen[0][2]
    assert got == [content, content]


def sent(asked: Asked, *pieces: str) -> None:
    for piece in pieces:
        asked.wfile.write(piece.encode())
        asked.wfile.flush()


def test_events_go_on_behind_the_last_one_after_a_break() -> None:
    def script(asked: Asked) -> None:
        number = len(asked.server.seen)  # type: ignore[attr-defined]
        if number == 2:
            asked.answer(503, {"code": "superseded", "detail": "wait"})
            return
        asked.stream()
        sent(
            asked, ": hello\n\n", f"event: journal\nid: {number}\ndata: ", f'{{"n": {number}}}\n\n'
        )

    told: list[str] = []
    with web_of(script) as (web, server):
        events = web.events("/events", {"after": 0}, told=lambda failure: told.append(failure.code))
        found = [next(events) for _ in range(3)]
        events.close()  # type: ignore[attr-defined]
        assert found == [("journal", str(n), {"n": n}) for n in (1, 3, 4)]
        assert [headers["Last-Event-ID"] for _, _, headers in server.seen] == [None, "1", "1", "3"]
    assert told == ["ended", "superseded", "ended"]


def test_a_stream_that_falls_silent_is_taken_up_again() -> None:
    """A half-open connection: nothing comes, and nobody says that it is over."""
    held = threading.Event()

    def script(asked: Asked) -> None:
        asked.stream()
        sent(asked, f"event: metrics\ndata: {len(asked.server.seen)}\n\n")  # type: ignore[attr-defined]
        held.wait(5)

    told: list[str] = []
    with web_of(script) as (web, _):
        events = web.events("/events", told=lambda failure: told.append(failure.code))
        begun = time.monotonic()
        assert [next(events), next(events)] == [("metrics", None, 1), ("metrics", None, 2)]
        assert 0.4 < time.monotonic() - begun < 4
        held.set()
        events.close()  # type: ignore[attr-defined]
    assert told == ["unreachable"]


def test_a_stream_that_never_was_or_is_refused_ends() -> None:
    with (
        Web("http://127.0.0.1:1", TOKEN, limits=QUICK) as web,
        pytest.raises(OperationFailed, match="can't be reached"),
    ):
        next(web.events("/events"))
    with (
        web_of(lambda asked: asked.answer(401, {"code": "no-access"})) as (web, _),
        pytest.raises(Refused),
    ):
        next(web.events("/events"))


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """Make a certificate that signs itself; returns what a server does with it."""
    key, made = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


@pytest.mark.needs("openssl")
def test_only_the_certificate_that_is_named_is_trusted(tmp_path: Path) -> None:
    context = certificate(tmp_path, "own")
    certificate(tmp_path, "other")
    with serving(lambda asked: asked.answer(200, {"ok": 1}), context) as server:
        url = server.url.replace("http:", "https:")
        with Web(url, TOKEN, tmp_path / "own.pem", QUICK) as web:
            assert web.get("/x").document == {"ok": 1}
        for trust in (tmp_path / "other.pem", None):
            with Web(url, TOKEN, trust, QUICK) as web:
                with pytest.raises(OperationFailed, match="not trusted") as caught:
                    web.get("/x")
                assert caught.value.code == "untrusted"
                assert "--certificate" in caught.value.hint
        with Web(server.url, TOKEN, None, QUICK) as web, pytest.raises(OperationFailed):
            web.get("/x")  # HTTP to who speaks HTTPS


def test_a_file_that_is_no_certificate_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    for name in ("bad.pem", "gone.pem"):
        with pytest.raises(OperationFailed, match=r"can't be read as a certificate"):
            Web("https://h", TOKEN, tmp_path / name)
