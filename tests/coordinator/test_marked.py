"""Secrets with marks, and names that sound like commands, on a real Kafka and a real Spark.

What is secret reaches whom it is for and is found nowhere else: not in files, answers, pages,
command lines or logs, and not after a crash. No text becomes a command on its way.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from millrace.brokers.kafka import ManagedKafka
from millrace.client import Client
from millrace.machine import Java
from millrace.machine.process import end_session
from millrace.ports import Record
from tests.api.secret_routes import answers, known
from tests.api.secret_takers import Database, Echo, guarded, served
from tests.api.secret_traces import Looked, command, core_limits, family, marked, runs
from tests.coordinator.town import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
LIMIT = 120.0
#: No secret: it is part of most names.
TOLD = "oProxyCommand"
BROKER, HOOK, BASE = SECRETS = tuple(marked(name) for name in ("broker", "hook", "base"))
#: A coordinator that tells all it could tell, where cores of what crashes would be kept.
LOUD = "import logging; logging.basicConfig(level=10); from millrace.cli.main import run; run()"
CORES = 'ulimit -c unlimited; exec "$0" "$@"'
#: A user's module that wants to hear everything, too.
CODE = """
import logging
logging.basicConfig(level=logging.DEBUG)
def copy(raw):
    return raw
"""
#: All names are as strange as the language lets them be; texts would be commands in a shell.
FILE = """
pipeline: marked..-oProxyCommand
description: "; touch CANARY"
sites:
  s@-oProxyCommand:
    engine: {kind: spark, options: {spark.yarn.queue: "; touch CANARY $(touch CANARY)"}}
    broker:
      address: 127.0.0.1:PORT_OF_BROKER
      options:
        security.protocol: SASL_PLAINTEXT
        sasl.username: admin
        sasl.password: {secret: env:BROKER_WORD}
groups: {g..@-oProxyCommand: {}}
defaults: {jobs: {group: g..@-oProxyCommand, version: "$(touch CANARY)"}}
streams:
  raw..-oProxyCommand: {schema: {n: int}}
  out: {topic: -oProxyCommand}
jobs:
  copy..@-oProxyCommand:
    {from: raw..-oProxyCommand, to: out, python: "code:copy", mode: micro-batch}
  ring-oProxyCommand:
    from: raw..-oProxyCommand
    write: {url: "URL_OF_HOOK", token: {secret: "file:KEYS_AT/hook"}}
"""
#: A job whose database takes no password.
ASK = """\
  ask:
    read:
      query: SELECT n FROM cars
      by: n
      database: postgresql://admin@127.0.0.1:PORT_OF_BASE/cars
      password: {secret: env:BASE_WORD}
    to: rows
"""
ASKING = FILE.replace("jobs:\n", "  rows: {schema: {n: int}}\njobs:\n") + ASK
PIPELINE = "marked..-oProxyCommand"
#: What is told of each secret that is not accepted.
TOLD_OF = ("password authentication failed", "answered 401")
#: What was looked at and has something of the pipeline in it.
PLACES = (
    *("state.db as rows", "up.said", "driver.log", "checkpoint/offsets", "coordinator.log"),
    *(
        "hs_err",
        "command lines",
        "/journal",
        "/events",
        "/operations",
        "{pipeline}/file",
        "{job}/log",
    ),
    *("page /environment/", "page /StreamingQuery/", "page /SQL/", "artifacts"),
    *("millrace apply", "millrace diff", "millrace describe", "millrace logs", "millrace get"),
)
#: Files of a user's folder may have any name.
STRANGE = (
    "$(touch CANARY).py",
    "; touch CANARY",
    "-oProxyCommand=touch CANARY.py",
    "a\ntouch b.py",
)


@dataclass
class Served:
    """A coordinator as a process of its own, in a folder of its own."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def said(self) -> str:
        return (self.folder / "up.said").read_text("utf-8", "replace")

    @property
    def client(self) -> Client:
        return Client.local(self.folder / "home")

    def run(self, looked: Looked, *arguments: str) -> str:
        """Run a command of the user's, and look at what it says; returns that."""
        command = [sys.executable, "-m", "millrace.cli", *arguments]
        done = subprocess.run(
            [*command, "--home", str(self.folder / "home")], cwd=self.folder / "project",
            capture_output=True, timeout=LIMIT, check=False, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        said = done.stdout + done.stderr
        looked.at(f"millrace {arguments[0]}", said)
        return said.decode()


@contextmanager
def up(folder: Path) -> Iterator[Served]:
    """Run a coordinator that has the secrets in its environment; ended with all it started."""
    command = ["sh", "-c", CORES, sys.executable, "-c", LOUD, "up", "--listen", "127.0.0.1:0"]
    words = {"BROKER_WORD": BROKER, "BASE_WORD": BASE, "NO_COLOR": "1"}
    with (folder / "up.said").open("wb") as out:
        process = subprocess.Popen(
            [*command, "--home", str(folder / "home")], cwd=folder / "cwd", stdout=out, stderr=out,
            start_new_session=True, env={**os.environ, **words},
        )  # fmt: skip
    made = Served(folder, process)
    started: list[psutil.Process] = []
    try:
        until(lambda: "the coordinator is up" in made.said, LIMIT, lambda: made.said)
        yield made
    finally:
        started += family(process.pid)
        end_session(process.pid)
        process.wait(20)
        for one in started:
            if one.is_running():
                one.kill()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a folder for all that the coordinator may write; keys lie beside it."""
    for name in ("place/cwd", "place/project", "keys"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "keys" / "hook").write_text(f"{HOOK}\n")
    (tmp_path / "place" / "project" / "code.py").write_text(CODE)
    for name in STRANGE:
        (tmp_path / "place" / "project" / name.replace("CANARY", "canary")).write_text("")
    return tmp_path / "place"


def written(place: Path, text: str, words: Mapping[str, object]) -> None:
    """Write the pipeline into the project."""
    for word, value in words.items():
        text = text.replace(word, str(value))
    (place / "project" / "pipeline.yaml").write_text(text)


def pages(looked: Looked, said: str) -> None:
    """Look at what Spark itself shows, on its pages and as data."""
    (address,) = set(re.findall(r"driver \S+ is up: (http://[^\s\"]+)", said))
    with httpx.Client(base_url=address, timeout=30, follow_redirects=True) as client:
        (application,) = client.get("/api/v1/applications").json()
        data = f"/api/v1/applications/{application['id']}"
        for page in ("/environment/", "/SQL/", "/StreamingQuery/", "/jobs/", "/executors/",
                     f"{data}/environment", f"{data}/sql?details=true&length=500"):  # fmt: skip
            answer = client.get(page)
            assert answer.status_code == 200, page
            looked.at(f"page {page.replace(data, '')}", answer.content)


def asked(made: Served, looked: Looked) -> str:
    """Ask the API everything; returns what was told."""
    with made.client as own:
        token, url = own.settings.token, own.settings.url
    told = []
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=40) as client:
        for path, _, data in answers(client, known(client), {}):
            looked.at(path, data)
            told.append(data.decode("utf-8", "replace"))
    return "\n".join(told)


def commands(made: Served, looked: Looked) -> None:
    """Look at what a user's commands show while all of it runs."""
    made.run(looked, "diff", "-f", "pipeline.yaml", "-o", "yaml")
    made.run(looked, "describe", "job", f"{PIPELINE}/ring-oProxyCommand")
    made.run(looked, "logs", f"{PIPELINE}/ring-oProxyCommand", "--tail", "5000")
    made.run(looked, "get", "pipelines", "-o", "yaml")


def crash(made: Served) -> None:
    """Let the driver and its Java crash; Java writes down what it can."""
    below = {" ".join(command(one)[:3]): one for one in family(made.process.pid)}
    (java,) = [one for line, one in below.items() if "/bin/java " in line]
    (driver,) = [one for line, one in below.items() if "millrace.agent.driver" in line]
    for one, number in ((java, signal.SIGSEGV), (driver, signal.SIGABRT)):
        if runs(one):
            one.send_signal(number)
        until(lambda: not runs(one), LIMIT, lambda: made.said)  # noqa: B023 - it is over at once
    assert list((made.folder / "cwd").glob("hs_err*"))


def sent(broker: ManagedKafka, topic: str) -> bool:
    """Whether there is something in a topic."""
    return any(span.end for span in broker.log.ends(topic).values())


def told_all(text: str) -> bool:
    """Whether every refusal is told."""
    return all(said in text for said in TOLD_OF)


def test_secrets_and_names_on_their_way(place: Path, java: Java, jars: Path) -> None:
    with (
        guarded(place.parent / "kafka", java, jars, BROKER) as broker,
        served(Echo()) as hook,
        served(Database()) as base,
        up(place) as made,
    ):
        at = broker.status().address.rpartition(":")[2]
        ports = {"PORT_OF_BROKER": at, "PORT_OF_BASE": base.port, "URL_OF_HOOK": hook.url}
        words = {**ports, "KEYS_AT": place.parent / "keys", "CANARY": place / "canary"}
        written(place, FILE, words)
        looked = Looked((TOLD, "DEBUG", *SECRETS))
        assert " is in force" in made.run(looked, "apply", "-f", "pipeline.yaml")
        written(place, ASKING, words)
        assert "undone" in made.run(looked, "apply", "-f", "pipeline.yaml")
        broker.log.write("raw..-oProxyCommand", [Record(b'{"n": 1}', b"k")])
        until(lambda: sent(broker, "-oProxyCommand"), LIMIT, lambda: made.said)
        until(lambda: hook.heard and base.heard, LIMIT, lambda: made.said)
        assert (hook.heard[0], base.heard[0]) == (f"Bearer {HOOK}", BASE)
        until(lambda: told_all(asked(made, looked)), LIMIT, lambda: asked(made, looked)[:5000])
        commands(made, looked)
        pages(looked, made.said)
        assert core_limits(made.process.pid) == {0}
        looked.commands(made.process.pid)
        looked.folder(place)
        crash(made)
        made.process.send_signal(signal.SIGINT)
        made.process.wait(LIMIT)
    looked.folder(place)
    looked.check(*SECRETS, told=TOLD, in_=PLACES)
    assert any(name.endswith("checkpoint/metadata") for name in looked.seen)
    assert "place/up.said" in looked.where("DEBUG")
    assert not list((place / "cwd").glob("*core*"))
    strange = {name.replace("CANARY", "canary") for name in STRANGE}
    assert {path.name for path in place.rglob("*canary*")} <= strange
