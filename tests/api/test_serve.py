"""The server itself: where it listens, TLS, and how it ends."""

from __future__ import annotations

import ssl
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from millrace.api.serve import Server, bound
from millrace.errors import OperationFailed
from tests.api.house import BASE, House, document


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", key, "-out", pem, "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return pem, key


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0", "127.0.0.1", "x:y"])
def test_what_others_reach_takes_a_certificate(listen: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        bound(listen)
    if caught.value.code == "no-certificate":
        assert "--certificate" in caught.value.hint
        assert "127.0.0.1" in caught.value.hint
    else:
        assert caught.value.code == "bad-address"


def test_certificates_that_can_t_be_used(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    pem, key = certificate
    for pair in ((pem, None), (None, key), (key, pem), (pem, tmp_path / "none"), (pem, pem)):
        with pytest.raises(OperationFailed) as caught:
            bound("127.0.0.1:0", *pair)
        assert caught.value.code == "bad-certificate"


def test_an_address_that_is_taken() -> None:
    first = bound("127.0.0.1:0")
    try:
        with pytest.raises(OperationFailed, match="can't be listened on"):
            bound(first.url.removeprefix("http://"))
    finally:
        first.close()


def test_a_server_over_tls(house: House, certificate: tuple[Path, Path]) -> None:
    server = Server(house.station, bound("127.0.0.1:0", *certificate))
    told, ready = list[str](), threading.Event()

    def tell(url: str) -> None:
        told.append(url)
        ready.set()

    thread = threading.Thread(target=server.run, args=(tell,))
    thread.start()
    assert ready.wait(20)
    try:
        context = ssl.create_default_context(cafile=str(certificate[0]))
        answer = httpx.get(f"{told[0]}{BASE}/whoami", headers=house.auth(), verify=context)
        assert answer.status_code == 200
        assert told[0].startswith("https://127.0.0.1:")
        assert "server" not in answer.headers
        old = ssl.create_default_context(cafile=str(certificate[0]))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert httpx.get(f"{told[0]}/", verify=old).status_code == 404
        assert server.address.context is not None
        assert server.address.context.minimum_version == ssl.TLSVersion.TLSv1_2
    finally:
        server.stop()
        thread.join(10)
    assert not thread.is_alive()


def test_it_ends_soon_with_streams_and_waits_open(house: House) -> None:
    with house.served() as url:
        client = httpx.Client(base_url=url, headers=house.auth(), timeout=30)
        house.done(client, house.apply(client, document()))
        site = house.auth(site="far")
        known = client.get(f"{BASE}/agent/goal", headers=site).json()["sum"]
        answers: list[int] = []
        params = {"known": known, "wait": 25}
        waiting = threading.Thread(
            target=lambda: answers.append(
                client.get(f"{BASE}/agent/goal", headers=site, params=params).status_code
            )
        )
        waiting.start()
        stream = client.stream("GET", f"{BASE}/events", params={"metrics": 0})
        response = stream.__enter__()
        time.sleep(0.3)
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    waiting.join(5)
    assert answers == [204]
    response.read()
    stream.__exit__(None, None, None)
    client.close()


def test_a_server_that_was_stopped_before_it_ran(house: House) -> None:
    server = Server(house.station, bound("127.0.0.1:0"))
    server.stop()
    server.run(lambda _: pytest.fail("it is not ready"))
