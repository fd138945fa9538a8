"""Names that would be commands elsewhere, and addresses that only a site's machine reaches."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.coordinator.tokens import Role
from tests.api.house import BASE, House, document
from tests.coordinator.town import Town, port, town, until

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
    "\uff4aob",  # a wide one
    "j\u200bob",  # with something in it that is not seen
    "\u202eboj",  # read from right to left
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


#: What a name may still be: it begins no option, leads nowhere and is the same in any alphabet.
ALLOWED = ["x-oProxyCommand", "_-rf", "a..b", "0", "a@b", "__proto__", "CON", "n" * 100]
#: What a shell would do by these, were it given them.
LIVE = ["; touch {}", "$(touch {})", "`touch {}`", "a\ntouch {}", "a|touch {}", "&& touch {}"]


@pytest.mark.parametrize("text", LIVE)
def test_a_shell_would_have_done_it(text: str, tmp_path: Path) -> None:
    """So these texts are no harmless ones."""
    line = f"true {text.format(tmp_path / 'canary')}"
    subprocess.run(["sh", "-c", line], check=False, cwd=tmp_path, timeout=20)
    assert (tmp_path / "canary").exists()


def named(name: str, canary: Path) -> dict[str, Any]:
    """A file in which all is called so, and in which texts that are only shown are commands."""
    evil = " ".join(text.format(canary) for text in LIVE)
    topic = name.replace("@", ".")
    job = {"site": name, "from": name, "sql": "SELECT 1 AS n", "group": name}
    return {
        "pipeline": name,
        "description": evil,
        "sites": {name: {"broker": {"kind": "kafka"}, "description": evil}},
        "streams": {name: {"site": name, "topic": topic, "schema": {"n": "int"}}},
        "groups": {name: {}},
        "jobs": {name: {**job, "version": evil, "description": evil}},
    }


@pytest.mark.timeout(120)
def test_names_that_are_allowed_run_and_are_no_commands(tmp_path: Path) -> None:
    """With a coordinator and an agent that are processes, and jobs that are some."""
    (tmp_path / "town").mkdir()
    canary, edge = tmp_path / "canary", ALLOWED[0]
    with town(tmp_path / "town") as place:
        at = port()
        place.up(port=at)
        place.token(edge)
        place.agent(f"http://127.0.0.1:{at}", edge)
        with place.client() as client:
            for name in ALLOWED:
                found = client.apply(named(name, canary), note=f"$(touch {canary})")
                assert client.wait(found["id"], 60)["state"] == "done", name
            jobs = {job["name"]: job["state"] for name in ALLOWED for job in client.jobs(name)}
        assert jobs == dict.fromkeys(ALLOWED, "running")
        assert place.runs(edge).keys() == {edge}
        refused_by_commands(place, canary)
    assert not [path for path in tmp_path.rglob("*canary*") if "said" not in path.name]


def refused_by_commands(place: Town, canary: Path) -> None:
    """Commands that are given such texts for names say no, without a traceback."""
    texts = [text.format(canary) for text in LIVE] + [f"--oProxyCommand=touch {canary}"]
    asked = []
    for text in texts:
        home = place.folder / "home"
        asked += [place.start(home, "describe", "job", f"{text}/{text}")]
        asked += [place.start(home, "logs", text), place.start(home, "get", "jobs", text)]
    until(lambda: not any(one.alive for one in asked), 60, lambda: [one.said for one in asked])
    for one in asked:
        assert one.wait() != 0
        assert "Traceback" not in one.said
        assert one.said


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
