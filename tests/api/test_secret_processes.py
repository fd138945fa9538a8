"""Secrets with marks through a coordinator and an agent that are processes and tell everything."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.machine import Java
from millrace.spec import load_text
from millrace.wire import pipeline_document
from tests.api.house import BASE
from tests.api.secret_program import LoudTown, loud_town
from tests.api.secret_routes import answers, gets, known
from tests.api.secret_takers import Echo, guarded, served
from tests.api.secret_traces import Looked, core_limits, marked
from tests.coordinator.town import port, until

pytestmark = pytest.mark.timeout(120)
TOLD = "toldtoall"
BROKER, FAR, HOOK = (marked(name) for name in ("broker", "far", "hook"))
#: A pipeline that needs a secret, by where its site is.
FILE = """
pipeline: toldtoall-SITE
sites: {SITE: {broker: BROKER}}
streams: {raw: {schema: {n: int}}}
jobs: {ring: {from: raw, write: {url: "URL", token: {secret: env:HOOK_WORD}}}}
"""
#: One that is up, so that there is something to be asked about.
WELL = """
pipeline: toldtoall-well
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}}
jobs: {copy: {from: raw, sql: SELECT n FROM raw}}
"""
#: By site: where the password of its broker is. That of the edge, whose agent asks, is wrong.
BROKERS = {
    "away": "{secret: env:BROKER_WORD}",
    "none": "{secret: env:BROKER_WORD}",
    "lost": "{secret: 'file:KEYS/gone'}",
    "edge": "{secret: 'file:KEYS/far'}",
}
#: What must be told, of sites and of the job whose hook refuses.
ERRORS = (
    *("no Kafka answers at", "can't be read: No such file", "credentials are not accepted"),
    "answered 401: the token",
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LoudTown]:
    (tmp_path / "keys").mkdir()
    (tmp_path / "town").mkdir()
    (tmp_path / "keys" / "far").write_text(FAR)
    with loud_town(tmp_path / "town", BROKER_WORD=BROKER, HOOK_WORD=HOOK) as made:
        yield made


def wanted(site: str, keys: Path, at: int, hook: str) -> dict[str, Any]:
    """A pipeline of a site whose broker is at a port."""
    password = BROKERS[site].replace("KEYS", str(keys))
    options = f"security.protocol: SASL_PLAINTEXT, sasl.username: admin, sasl.password: {password}"
    broker = f'{{address: "127.0.0.1:{at}", options: {{{options}}}}}'
    text = FILE.replace("SITE", site).replace("URL", hook).replace("BROKER", broker, 1)
    return pipeline_document(load_text(text).required())


def asked(place: LoudTown, looked: Looked) -> tuple[set[str], str]:
    """Ask everything; returns what had an answer, and all that was told."""
    with place.client() as own:
        token = {"Authorization": f"Bearer {own.settings.token}"}
        url = own.settings.url
    agent = {"Authorization": f"Bearer {(place.folder / 'edge.token').read_text()}"}
    good, told = set(), b""
    with httpx.Client(base_url=url, headers=token, timeout=30) as client:
        for path, status, data in answers(client, known(client), agent):
            good |= {path} if status == 200 else set()
            looked.at(path, data)
            told += data
    return good, told.decode("utf-8", "replace")


def test_secrets_leave_no_trace(place: LoudTown, tmp_path: Path, java: Java, jars: Path) -> None:
    with served(Echo()) as hook, guarded(tmp_path / "kafka", java, jars, BROKER) as broker:
        at, nobody = int(broker.status().address.rpartition(":")[2]), port()
        listening = port()
        place.up(port=listening)
        place.token("edge")
        place.agent(f"http://127.0.0.1:{listening}")
        place.applied(pipeline_document(load_text(WELL).required()))
        with place.client() as client:
            for site in BROKERS:
                client.apply(
                    wanted(site, tmp_path / "keys", nobody if site == "none" else at, hook.url)
                )
        looked = Looked((TOLD, "DEBUG", BROKER, FAR, HOOK, *tokens(place)))

        def told() -> set[str]:
            good, said = asked(place, looked)
            return good if all(error in said for error in ERRORS) else set()

        good = until(told, 60, lambda: asked(place, looked))
        assert good >= {path for path in gets() if path.startswith(BASE) and "digest" not in path}
        # Its job was started, so who knew the broker's password was let in.
        assert hook.heard[0] == f"Bearer {HOOK}"
    pids = [process.pid for process in place.processes]
    looked.commands(*pids)
    assert core_limits(*pids) == {0}
    for process in place.processes:
        process.signal(signal.SIGABRT)
        assert process.wait() == -signal.SIGABRT
    looked.folder(tmp_path / "town")
    searched = ("state.db as rows", "goal.json", "/journal", "/events", "/operations")
    looked.check(BROKER, FAR, HOOK, told=TOLD, in_=searched)
    assert looked.where("DEBUG") >= {"town/0-up.said", "town/1-agent.said"}
    assert any("command lines" in place for place in looked.seen)
    assert not list((tmp_path / "town").glob("*core*"))
    for token in tokens(place):
        assert {Path(name).name for name in looked.where(token)} <= {"token", "edge.token"}


def tokens(place: LoudTown) -> list[str]:
    """The secret parts of the tokens that there are."""
    files = (place.folder / "home" / "coordinator" / "token", place.folder / "edge.token")
    return [file.read_text().strip().split("_", 2)[2] for file in files]
