"""Secrets behind the API: a token's text is told once, one that was typed by mistake never."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.coordinator.tokens import Role
from tests.api.house import BASE, House, document, problem, until
from tests.api.secret_routes import answers, gets, known
from tests.api.secret_traces import Looked, marked
from tests.api.test_speck import YAML, described

TYPED, TOLD = marked("typed"), "toldtoall"


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return a function that gives all that the server logged, what is for debugging included."""
    caplog.set_level(logging.DEBUG)

    def logged() -> str:
        logging.getLogger("millrace.api").debug("%s is seen", TOLD)
        return "\n".join(
            f"{record.name} {record.getMessage()} {record.exc_text or ''}"
            for record in caplog.records
            if not record.name.startswith("http")  # the client, which is in this process, too
        )

    return logged


def test_a_token_is_shown_once(
    house: House, client: httpx.Client, server: Callable[[], str], tmp_path: Path
) -> None:
    made = client.post(f"{BASE}/tokens", json={"name": TOLD, "role": "admin"}).json()
    text: str = made["token"]
    secret = text.split("_", 2)[2]
    headers = {"Authorization": f"Bearer {text}"}
    looked = Looked((secret, TOLD))
    for answer in (
        client.get(f"{BASE}/whoami", headers=headers),
        client.get(f"{BASE}/tokens", headers=headers),
        client.get(f"{BASE}/tokens/{text}", headers=headers),
        client.delete(f"{BASE}/tokens/{text}", headers=headers),
        client.get(f"{BASE}/pipelines/{text}", headers=headers),
        client.get(f"/{text}", headers=headers),
        client.get(f"{BASE}/pipelines", params={"cursor": text, "limit": text}, headers=headers),
        client.post(f"{BASE}/tokens", json={"name": "x", text: text}, headers=headers),
        client.post(f"{BASE}/tokens", json={"name": "x", "role": text}, headers=headers),
        house.apply(client, document(), **headers, **{"If-Match": text}),
        house.apply(client, document(), **headers),
        client.get(f"{BASE}/journal", params={"limit": 1000}, headers=headers),
        client.get(f"{BASE}/events", headers={"Authorization": f"Bearer {text}x"}),
    ):
        looked.at("answers", f"{answer.text}\n{answer.headers}")
    looked.at("logs", server())
    looked.folder(house.home.place)
    looked.check(secret, told=TOLD, in_=["answers", "state.db as rows", "logs"])
    first = house.home.token.read_text().strip().split("_", 2)[2]
    kept = Looked((first,))
    kept.folder(tmp_path)
    assert {Path(place).name for place in kept.where(first)} == {"token"}


def marked_document() -> dict[str, Any]:
    """A pipeline with secrets by reference wherever it may have some."""
    body = document(TOLD)
    body["sites"]["here"]["broker"]["options"] = {"sasl.password": {"secret": "env:WORD"}}
    hook = {"url": "https://hooks.example.org/x", "token": {"secret": "env:WORD"}}
    body["jobs"]["ring"] = {"site": "here", "from": "s1", "write": hook}
    base: dict[str, Any] = {
        "query": "SELECT n FROM cars",
        "by": "n",
        "password": {"secret": "env:WORD"},
    }
    base["database"] = "postgresql://me@db.example.org/cars"
    body["streams"]["rows"] = {"site": "here", "schema": {"n": "int"}}
    body["jobs"]["ask"] = {"site": "here", "read": base, "to": "rows"}
    return body


def test_every_answer_is_without_secrets(
    house: House, client: httpx.Client, server: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each route that can be asked is asked; those for agents as an agent."""
    monkeypatch.setenv("WORD", TYPED)
    assert house.done(client, house.apply(client, marked_document()))["state"] == "done"
    speck = client.post("/jobs", json=described("A"))
    assert house.done(client, speck)["state"] == "done"
    until(lambda: house.station.pipeline(TOLD).running == 3)
    code = f"# {TOLD}".encode()
    digest = hashlib.sha256(code).hexdigest()
    assert client.put(f"{BASE}/artifacts/{digest}", content=code).status_code == 201
    agent = house.auth(Role.OPERATOR, site="here")
    looked = Looked((TYPED, TOLD, "env:WORD"))
    good = set()
    for path, status, data in answers(client, known(client, digest=[digest]), agent):
        good |= {path} if status in (200, 204) else set()
        looked.at(path, data)
    assert good == set(gets())
    looked.at("logs", server())
    looked.folder(house.home.place)
    shown = ("{pipeline}/file", "/journal", "/events", "/goal", "/agent/artifacts", "/operations")
    looked.check(TYPED, told=TOLD, in_=[*shown, "/sites", "state.db as rows", "logs"])
    named = looked.where("env:WORD")
    assert {f"{BASE}/pipelines/{{pipeline}}/file", f"{BASE}/agent/goal"} <= named


#: Where a person may type a secret that must not be there: a path of keys, and what is there.
WRONG: list[tuple[tuple[str, ...], Any]] = [
    (("sites", "here", "broker", "options", "sasl.password"), TYPED),
    (("sites", "here", "broker", "options", "sasl.password"), [TYPED]),
    (("sites", "here", "broker", "options", "sasl.password"), {"secret": "env:X", "is": TYPED}),
    (("sites", "here", "broker", "options", "sasl.password"), {"secret": {"is": TYPED}}),
    (("sites", "here", "broker", "options", "sasl.jaas.config"), f"password={TYPED};"),
    (("sites", "here", "broker", "address"), f"kafka://me:{TYPED}@kafka:9092"),
    (("sites", "here", "engine", "options"), {"spark.ssl.keyPassword": TYPED}),
    (("sites", "here", "broker", "options", "sasl.password"), {"secret": TYPED}),
    (("jobs", "ring", "write", "token"), TYPED),
    (("jobs", "ring", "write", "token"), {"secret": [TYPED]}),
    (("jobs", "ring", "write", "token"), {"secret": TYPED}),
    (("jobs", "ring", "write", "url"), f"https://me:{TYPED}@hooks.example.org/x"),
    (("jobs", "ask", "read", "password"), TYPED),
    (("jobs", "ask", "read", "database"), f"postgresql://me:{TYPED}@db/cars"),
    (("jobs", "ask", "read", "database"), f"postgresql://me@db/cars?password={TYPED}"),
]


@pytest.mark.parametrize(("path", "typed"), WRONG, ids=range(len(WRONG)))
def test_a_secret_that_was_typed_is_not_repeated(
    house: House, client: httpx.Client, server: Callable[[], str], path: tuple[str, ...], typed: Any
) -> None:
    body = marked_document()
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = typed
    looked = Looked((TYPED, TOLD))
    for answer in (
        house.apply(client, body),
        client.post(f"{BASE}/pipelines/{TOLD}/plan", json={"document": body}),
    ):
        problem(answer, 422, "bad-file")
        looked.at("answers", f"{answer.text}\n{answer.headers}")
    looked.at("answers", client.get(f"{BASE}/journal").text)
    looked.at("logs", server())
    looked.folder(house.home.place)
    looked.check(TYPED, told=TOLD, in_=["answers", "state.db as rows", "logs"])


def test_what_is_asked_for_with_a_secret_is_not_repeated(
    house: House, client: httpx.Client, server: Callable[[], str]
) -> None:
    """Bodies and addresses that no one understands; of SpecK's, too."""
    looked = Looked((TYPED, TOLD))
    broker = f"kafka://me:{TYPED}@172.16.192.18:9092"
    composition = "jobs:\n- " + json.dumps(described("A", source_broker=broker))
    for answer in (
        client.post("/jobs", json=described("A", source_broker=broker)),
        client.post("/jobs", json={**described(TOLD), "password": TYPED}),
        client.post("/compositions", content=composition, headers=YAML),
        client.post(f"{BASE}/tokens", json={"name": TOLD, "role": "viewer", "password": TYPED}),
        client.post(f"{BASE}/tokens", json={"name": TOLD, "role": {"password": TYPED}}),
        client.put(f"{BASE}/pipelines/{TOLD}", content=f"password: '{TYPED}", headers=YAML),
        client.put(f"{BASE}/pipelines/{TOLD}", content=f"a: b: {TYPED}", headers=YAML),
        client.put(f"{BASE}/pipelines/{TOLD}", json={"document": TYPED}),
        client.get(f"{BASE}/pipelines", headers={"Authorization": f"Basic {TYPED}"}),
        client.get(f"{BASE}/pipelines", headers={"Authorization": f"Bearer {TYPED}"}),
    ):
        assert 400 <= answer.status_code < 500, answer.text
        looked.at("answers", f"{answer.text}\n{answer.headers}")
    looked.at("answers", client.get(f"{BASE}/journal").text)
    looked.at("logs", server())
    looked.folder(house.home.place)
    looked.check(TYPED, told=TOLD, in_=["answers", "state.db as rows", "logs"])
