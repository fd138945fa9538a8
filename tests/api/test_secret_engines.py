"""What engines and sinks are given of secrets: never on a command line, and only for as long."""

from __future__ import annotations

import json
import logging
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest

from millrace.agent.fleet import driver_of
from millrace.engines.spark import host, lease, program
from millrace.engines.spark.channel import Channel
from millrace.engines.spark.outside.hook import bearer, post
from millrace.engines.spark.outside.undone import SAID, Undone
from millrace.engines.spark.program import ProgramEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder
from millrace.spec import load_text
from tests.api.house import until
from tests.api.secret_takers import Echo, served
from tests.api.secret_traces import Looked, holds, marked, open_to_others

SECRET = marked("engines")
TEXT = """
pipeline: p
sites: {here: {broker: kafka, engine: {kind: spark, options: {OPTION: {secret: env:WORD}}}}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs:
  sql: {from: raw, to: out, sql: SELECT n FROM raw}
  own: {from: raw, jar: {path: own.jar}}
"""
#: Says that it runs, and goes on until it is ended.
SUBMIT = "#!/bin/sh\necho begun\nsleep 600\ntrue\n"


def pipeline(option: str) -> Pipeline:
    return load_text(TEXT.replace("OPTION", option)).required()


@pytest.fixture(autouse=True)
def word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", SECRET)


@pytest.mark.parametrize(
    ("job", "option", "refused"),
    [
        ("sql", "spark.yarn.queue", True),
        ("sql", "spark.ssl.keyPassword", True),
        ("own", "spark.driver.extraJavaOptions", True),
        ("own", "spark.ssl.keyPassword", False),
    ],
)
def test_no_secret_is_put_on_a_command_line(
    folders: Folders, tmp_path: Path, job: str, option: str, refused: bool
) -> None:
    """Spark takes the settings of a driver there; those of a program are in a file."""
    wanted = pipeline(option)
    own = Folders(tmp_path, folders.cache)
    if not refused:
        assert not driver_of(wanted, wanted.jobs[job], f"here/{job}", own).status()
        return
    with pytest.raises(OperationFailed) as failed:
        driver_of(wanted, wanted.jobs[job], f"here/{job}", own)
    assert option in failed.value.message
    assert not holds(f"{failed.value} {failed.value.hint}".encode(), [SECRET])


def test_files_of_a_program_are_private_and_gone_when_it_is(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = tmp_path / "spark"
    (spark / "bin").mkdir(parents=True)
    (spark / "bin" / "spark-submit").write_text(SUBMIT)
    (spark / "bin" / "spark-submit").chmod(0o700)
    monkeypatch.setattr(program, "_spark", lambda: str(spark))
    (tmp_path / "own.jar").write_bytes(b"")
    wanted = pipeline("spark.ssl.keyPassword")
    client = {"bootstrap.servers": "127.0.0.1:9", "sasl.jaas.config": SECRET}
    order = JobOrder(wanted, wanted.jobs["own"], {"here": client}, tmp_path / "job", tmp_path)
    own = ProgramEngine(tmp_path / "driver", java, [], options={"spark.hidden": SECRET})
    own.start(order)
    try:
        until(lambda: "begun" in own.log.read_text(), 20)
        running = Looked((SECRET, "--properties-file"))
        running.folder(tmp_path)
        assert own.pid is not None
        running.commands(own.pid)
        held = {Path(name).name for name in running.where(SECRET)}
        assert held == {"spark.properties", "client.properties"}
        assert "command lines" in running.where("--properties-file")
        assert open_to_others(tmp_path, [SECRET]) == []
        files = [*tmp_path.rglob("*.properties")]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    finally:
        own.stop("own")
    after = Looked((SECRET,))
    after.folder(tmp_path)
    assert after.where(SECRET) == set()


@pytest.mark.parametrize(
    "token",
    [SECRET, f"{SECRET}/+=", f'"{SECRET}\\', f"<{SECRET}&", "s p  a c e d", "a"],
)
def test_a_hook_that_says_a_token_back_is_not_repeated(token: str) -> None:
    with served(Echo()) as hook, pytest.raises(Undone) as undone:
        post(hook.url, b"{}\n", {"Authorization": bearer(token, "token")}, 20)
    assert hook.heard == [f"Bearer {token}"]
    assert str(undone.value).startswith(f"{hook.url.removesuffix('/hook')} answered 401")
    if len(token) > 1:
        assert token not in str(undone.value)
        assert json.dumps(token)[1:-1] not in str(undone.value)


@pytest.mark.parametrize("before", [SAID - 40, SAID - 9, SAID - 1, SAID, SAID + 9])
def test_half_a_token_is_not_repeated(before: int) -> None:
    with served(Echo(before * "x" + " {} " + SECRET)) as hook, pytest.raises(Undone) as undone:
        post(hook.url, b"{}\n", {"Authorization": bearer(SECRET, "token")}, 20)
    assert not holds(str(undone.value).encode(), [SECRET[:4]])


def test_a_driver_never_tells_of_its_calls_to_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Passwords of brokers are among them, and a user's module may want to hear everything."""
    caplog.set_level(logging.DEBUG)
    levels = []

    def started(_: object) -> None:
        levels.append(logging.getLogger("py4j.java_gateway").getEffectiveLevel())
        raise OperationFailed("no-spark", "it is not needed here")

    monkeypatch.setattr(host, "start_session", started)
    monkeypatch.setattr(lease, "take", lambda *_: None)
    settings = {"place": str(tmp_path), "generation": 1, "jars": [], "master": None}
    settings |= {"options": {}, "java_options": []}
    (tmp_path / "driver.json").write_text(json.dumps(settings))
    before, level = signal.getsignal(signal.SIGINT), logging.getLogger("py4j").level
    ours, theirs = socket.socketpair()
    number = theirs.detach()
    monkeypatch.setattr(sys, "argv", ["", str(number), str(tmp_path / "driver.json")])
    made: list[Channel] = []

    def channel(end: socket.socket) -> Channel:
        made.append(Channel(end))
        return made[0]

    monkeypatch.setattr(host, "Channel", channel)
    try:
        with ours, pytest.raises(SystemExit):
            host.serve()
    finally:
        made[0].close()
        signal.signal(signal.SIGINT, before)
        logging.getLogger("py4j").setLevel(level)
    assert levels == [logging.ERROR]
