"""Names that would be commands elsewhere, and addresses that only a site's machine reaches."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.coordinator.tokens import Role
from tests.api.house import BASE, House, document

EVIL = [
    "; touch canary",
    "$(touch canary)",
    "`touch canary`",
    "a\ntouch canary",
    "a\r\n#SBATCH --wrap=touch",
    "-oProxyCommand=touch canary",
    "../../canary",
    "a\0b",
    "j\u043eb",  # a Cyrillic letter
    "a|touch canary",
    "&& touch canary",
    "%(canary)s {canary} ${canary}",
]


def renamed(place: str, name: str) -> dict[str, Any]:
    """A file in which something has that name, and all that uses it, too."""
    made: dict[str, Any] = copy.deepcopy(document())
    if place == "pipeline":
        made["pipeline"] = name
    elif place == "site":
        made["sites"] = {name: made["sites"]["here"]}
        for thing in (*made["streams"].values(), *made["jobs"].values()):
            thing["site"] = name
    elif place == "job":
        made["jobs"] = {name: made["jobs"]["j0"]}
    elif place == "stream":
        made["streams"][name] = made["streams"].pop("s1")
        made["jobs"]["j0"]["to"] = name
    elif place == "topic":
        made["streams"]["s1"]["topic"] = name
    elif place == "group":
        made["groups"] = {name: {}}
        made["jobs"]["j0"]["group"] = name
    elif place == "host":
        made["sites"]["here"]["host"] = name
    elif place == "version":
        made["jobs"]["j0"]["version"] = name
    return made


@pytest.mark.parametrize(
    "place", ["pipeline", "site", "job", "stream", "topic", "group", "host", "version"]
)
def test_a_name_that_would_be_a_command_is_refused(
    house: House, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with house.client() as client:
        for evil in EVIL:
            body = renamed(place, evil)
            answer = client.put(f"{BASE}/pipelines/p", json={"document": body})
            if place == "version" and answer.status_code == 202:  # a text, and only compared
                assert house.done(client, answer)["state"] == "done"
                continue
            assert answer.status_code == 422, (place, evil, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
    assert not list(tmp_path.rglob("*canary*"))


def hooked(url: str) -> dict[str, Any]:
    made: dict[str, Any] = document()
    made["jobs"]["hook"] = {"site": "here", "from": "s1", "write": {"url": url}}
    return made


INNER = [
    "http://127.0.0.1:9/x",
    "http://localhost:9/x",
    "http://LOCALHOST./x",
    "http://[::1]:9/x",
    "http://[::ffff:127.0.0.1]/x",
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1]/x",
    "http://0.0.0.0:9/x",
]


@pytest.mark.parametrize("url", INNER)
def test_only_an_admin_lets_a_site_send_to_itself(house: House, url: str) -> None:
    operator = house.auth(Role.OPERATOR)
    with house.client() as client:
        refused = house.apply(client, hooked(url), **operator)
        assert (refused.status_code, refused.json()["code"]) == (403, "inner-address")
        assert house.done(client, house.apply(client, hooked(url)))["state"] == "done"
        note = {"description": "as it was, and a word more"}
        again = house.apply(client, {**hooked(url), **note}, **operator)
        assert house.done(client, again)["state"] == "done"


def test_an_address_elsewhere_is_for_operators(house: House) -> None:
    with house.client(Role.OPERATOR) as client:
        sent: httpx.Response = house.apply(client, hooked("https://hooks.example.org/x"))
        assert house.done(client, sent)["state"] == "done"
