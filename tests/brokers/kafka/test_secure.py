"""TLS, SASL and rights, against a broker that asks for all of them; both kinds of clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.brokers.kafka import AttachedKafka, ManagedKafka
from millrace.brokers.kafka.server import _escaped
from millrace.brokers.kafka.settings import for_java
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.model.stream import Stream
from millrace.ports import Record

PASSWORD = 'a"b\\c; d=é'  # noqa: S105 - of a broker that lives for seconds
STREAM = Stream(name="guarded")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def authority(folder: Path, name: str) -> None:
    openssl(
        folder, "req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}",
        "-keyout", f"{name}.key", "-out", f"{name}.crt",
    )  # fmt: skip


def certificate(folder: Path, name: str) -> None:
    """Make a key and a certificate for 127.0.0.1, and not for localhost."""
    openssl(
        folder, "req", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
    )
    (folder / "san.ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", "san.ext", "-out", f"{name}.crt",
    )  # fmt: skip
    both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
    (folder / f"{name}.pem").write_text(both)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("secure")
    authority(place, "ca")
    authority(place, "other-ca")
    certificate(place, "broker")
    certificate(place, "client")
    yield place
    shutil.rmtree(place)


def server_settings(folder: Path) -> dict[str, str]:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    tls = {
        "keystore.type": "PEM",
        "keystore.location": str(folder / "broker.pem"),
        "truststore.type": "PEM",
        "truststore.location": str(folder / "ca.crt"),
        "client.auth": "requested",
    }
    return {
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="admin" password="{quoted}" user_admin="{quoted}" user_reader="r";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        **{f"listener.name.clients.ssl.{name}": value for name, value in tls.items()},
    }


def client_settings(folder: Path) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(folder / "ca.crt"),
    }


@pytest.fixture(scope="module")
def secure(folder: Path, java: Java, jars: Path) -> Iterator[ManagedKafka]:
    broker = ManagedKafka(
        folder / "kafka",
        java,
        jars,
        settings=server_settings(folder),
        client=client_settings(folder),
    )
    broker.start()
    try:
        broker.ensure(STREAM)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def settings(secure: ManagedKafka, folder: Path) -> Callable[..., dict[str, str]]:
    """Return a function that gives settings which work, with some others in their place."""
    address = secure.status().address

    def changed(**others: str | None) -> dict[str, str]:
        given = {"bootstrap.servers": address, **client_settings(folder)}
        named = {name.replace("__", "."): value for name, value in others.items()}
        return {name: value for name, value in (given | named).items() if value is not None}

    return changed


def refused(settings: dict[str, str]) -> OperationFailed:
    """Return how a broker and its log refuse, which is the same."""
    broker = AttachedKafka(settings)
    with pytest.raises(OperationFailed) as starting:
        broker.start()
    with pytest.raises(OperationFailed) as writing:
        broker.log.write(STREAM.address, [Record(b"x")])
    assert starting.value.code == writing.value.code
    assert not broker.status().up
    return starting.value


def test_right_credentials_write_and_read(settings: Callable[..., dict[str, str]]) -> None:
    broker = AttachedKafka(settings())
    broker.start()
    at = broker.log.ends(STREAM.address)[0].end
    broker.log.write(STREAM.address, [Record(b"secret")])
    [got] = broker.log.read(STREAM.address, {0: at}, {0: at + 1})
    assert got.value == b"secret"


def test_a_mechanism_need_not_be_named(settings: Callable[..., dict[str, str]]) -> None:
    AttachedKafka(settings(sasl__mechanism=None)).start()


def test_a_wrong_password_is_told_as_such(settings: Callable[..., dict[str, str]]) -> None:
    failed = refused(settings(sasl__password="wr0ng"))  # noqa: S106 - a wrong one
    assert failed.code == "not-authenticated"
    assert "sasl.password" in failed.hint
    assert "wr0ng" not in str(failed)
    assert not failed.transient


def test_a_wrong_authority_is_told_as_such(
    settings: Callable[..., dict[str, str]], folder: Path
) -> None:
    failed = refused(settings(ssl__ca__location=str(folder / "other-ca.crt")))
    assert failed.code == "not-trusted"
    assert "ssl.ca.location" in failed.hint


def test_a_missing_file_is_told(settings: Callable[..., dict[str, str]]) -> None:
    failed = refused(settings(ssl__ca__location="/nowhere/ca.crt"))
    assert failed.code == "bad-setting"
    assert "ssl.ca.location" in failed.message


def test_a_client_without_tls_is_told_what_may_be_missing(
    settings: Callable[..., dict[str, str]],
) -> None:
    with pytest.raises(OperationFailed) as caught:
        AttachedKafka({"bootstrap.servers": settings()["bootstrap.servers"]}).start()
    assert caught.value.code == "no-broker"
    assert "security.protocol" in caught.value.hint


def test_a_user_without_rights_is_told_whom_to_ask(
    settings: Callable[..., dict[str, str]],
) -> None:
    broker = AttachedKafka(settings(sasl__username="reader", sasl__password="r"))  # noqa: S106
    broker.start()
    assert broker.status().up
    for use in (
        lambda: broker.ensure(STREAM),
        lambda: broker.ensure(Stream(name="of-reader")),
        lambda: broker.drop(STREAM),
        lambda: broker.log.write(STREAM.address, [Record(b"x")]),
        lambda: broker.log.ends(STREAM.address),
        lambda: list(broker.log.read(STREAM.address, {0: 0})),
    ):
        with pytest.raises(OperationFailed) as caught:
            use()
        assert caught.value.code == "no-rights"
        assert "reader" in caught.value.message
        assert "ask its owner" in caught.value.hint
        assert not caught.value.transient


def test_commands_tell_a_user_without_rights_whom_to_ask(
    settings: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    given: dict[str, object] = {**settings(sasl__username="reader")}
    broker = {"kind": "kafka", "address": given.pop("bootstrap.servers"), "options": given}
    given["sasl.password"] = {"secret": "env:READERS"}
    file = tmp_path / "pipeline.yaml"
    text = {
        "pipeline": "guarded",
        "sites": {"here": {"broker": broker}},
        "streams": {STREAM.name: {"format": "raw"}, "out": {"format": "raw"}},
        "jobs": {"copy": {"from": STREAM.name, "to": "out", "sql": "SELECT * FROM guarded"}},
    }
    file.write_text(json.dumps(text), "utf-8")
    for command in (["run"], ["tail", STREAM.name, "--file"], ["send", STREAM.name, "--file"]):
        done = subprocess.run(
            [sys.executable, "-m", "millrace.cli", *command, str(file), "--home", str(tmp_path)],
            input=b"x\n", capture_output=True, timeout=120, check=False,
            env={**os.environ, "READERS": "r"},
        )  # fmt: skip
        told = done.stderr.decode()
        assert done.returncode == 1, told
        assert "lets reader not use" in told
        assert "ask its owner" in told
        assert "Traceback" not in told


def test_managed_with_wrong_credentials_of_its_client_ends(
    secure: ManagedKafka, settings: Callable[..., dict[str, str]], folder: Path
) -> None:
    """A client that can never come in is told at once, not when the limit is over."""
    mine = AttachedKafka(settings(sasl__password="wr0ng"))  # noqa: S106
    secure_client, secure_complaints = secure._client, secure._complaints
    secure._client, secure._complaints = mine._admin(), mine._complaints
    try:
        with pytest.raises(OperationFailed) as caught:
            secure._serves()
    finally:
        secure._client, secure._complaints = secure_client, secure_complaints
    assert caught.value.code == "not-authenticated"


def test_java_understands_the_same_settings(
    settings: Callable[..., dict[str, str]], folder: Path, java: Java, jars: Path
) -> None:
    """Each of these is tried by Java's own client with the names that `for_java` gives."""
    port = settings()["bootstrap.servers"].rpartition(":")[2]
    two_files = {
        "ssl__certificate__location": str(folder / "client.crt"),
        "ssl__key__location": str(folder / "client.key"),
    }
    one_file = {"ssl__certificate__location": str(folder / "client.pem")}
    by_name = {"bootstrap__servers": f"localhost:{port}"}
    unchecked = {"ssl__endpoint__identification__algorithm": "none"}
    cases = [
        (settings(), "[guarded]"),
        (settings(**two_files), "[guarded]"),
        (settings(**one_file), "[guarded]"),
        (settings(**by_name, **unchecked), "[guarded]"),
        (settings(**by_name), "SslAuthenticationException"),
        (settings(sasl__username="reader", sasl__password="r"), "[]"),  # noqa: S106
        (settings(sasl__password="wr0ng"), "SaslAuthenticationException"),  # noqa: S106
        (settings(ssl__ca__location=str(folder / "other-ca.crt")), "SslAuthenticationException"),
    ]
    files = []
    for number, (given, _) in enumerate(cases):
        files.append(folder / f"client-{number}.properties")
        pairs = for_java(given).items()
        files[-1].write_text("".join(f"{name}={_escaped(value)}\n" for name, value in pairs))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    source = Path(__file__).with_name("ListTopics.java")
    done = subprocess.run(
        [java.program, quiet, "-cp", f"{jars}/*", source, *files],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.stdout.splitlines() == [expected for _, expected in cases], done.stderr


def test_librdkafka_takes_a_certificate_of_its_own_in_both_ways(
    settings: Callable[..., dict[str, str]], folder: Path
) -> None:
    crt, key, pem = (str(folder / f"client.{kind}") for kind in ("crt", "key", "pem"))
    AttachedKafka(settings(ssl__certificate__location=crt, ssl__key__location=key)).start()
    AttachedKafka(settings(ssl__certificate__location=pem, ssl__key__location=pem)).start()
