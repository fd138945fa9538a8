"""The client against a real coordinator of fakes, over HTTP."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from millrace.client import Client, Refused
from millrace.client.code import versioned
from millrace.errors import OperationFailed
from millrace.machine.web import Web
from millrace.spec import load
from millrace.wire import pipeline_document
from tests.api.house import House, document, until
from tests.client.running import project, served, written


def applied(client: Client, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    return client.wait(client.apply(body, **more)["id"], 30)


def test_a_pipeline_from_its_plan_to_its_end(client: Client, house: House) -> None:
    body = document("p", 2)
    plan = client.plan(body)
    assert (plan["pipeline"], plan["revision"], client.pipelines()) == ("p", 0, [])
    assert len(plan["steps"]) == 6
    told: list[int] = []
    operation = client.wait(
        client.apply(body, note="first", if_revision=0)["id"], 30, lambda v: told.append(v["done"])
    )
    assert (operation["state"], operation["done"], told[-1]) == ("done", 6, 6)
    assert client.plan(body)["steps"] == []
    until(lambda: client.pipeline("p")["running"] == 2)
    assert [item["name"] for item in client.pipelines()] == ["p"]
    assert {item["name"] for item in client.jobs("p")} == {"j0", "j1"}
    assert client.job("p", "j1")["reads"] == ["s1"]
    assert [item["name"] for item in client.streams("p")] == ["s0", "s1", "s2"]
    assert client.stream("p", "s0")["ready"]
    assert [item["name"] for item in client.sites()] == ["here"]
    assert client.site("here")["state"] == "up"
    assert [item["id"] for item in client.operations()] == ["p.1"]
    [revision] = client.revisions("p")
    assert (revision["note"], revision["by"], revision["in_force"]) == ("first", "first", True)
    assert client.file("p")["jobs"].keys() == body["jobs"].keys()
    assert client.wait(client.delete("p")["id"], 30)["state"] == "done"
    assert client.pipelines() == []


def test_an_old_file_comes_back_as_a_new_revision(client: Client) -> None:
    applied(client, document("p", 1))
    applied(client, document("p", 2))
    assert client.file("p", 1) != client.file("p")
    back = client.wait(client.rollback("p", 1, note="back", allow_state_loss=True)["id"], 30)
    assert back["state"] == "done", back
    assert client.file("p") == client.file("p", 1)
    assert [item["number"] for item in client.revisions("p")] == [3, 2, 1]


def test_a_change_is_made_for_a_revision_and_once_for_a_key(client: Client) -> None:
    first = client.apply(document("p", 1), key="k")
    assert client.apply(document("p", 1), key="k")["id"] == first["id"]
    client.wait(first["id"], 30)
    with pytest.raises(Refused) as caught:
        client.apply(document("p", 2), if_revision=0)
    assert (caught.value.status, caught.value.document["revision"]) == (412, 1)
    with pytest.raises(Refused) as used:
        client.apply(document("p", 3), key="k")
    assert used.value.code == "key-used"
    assert len(client.revisions("p")) == 1


def test_logs_and_records_come_from_their_site(client: Client, house: House) -> None:
    applied(client, document("traffic", 1))
    shop = house.shops["traffic", "here"]
    (shop.folder / "j0.log").write_text("one\ntwo\n")
    piece = client.log("traffic", "j0")
    assert (piece["text"], piece["next"]) == ("one\ntwo\n", 8)
    assert client.log("traffic", "j0", 4)["text"] == "two\n"
    written(house, "s0", b"x", b"\xff")
    found = client.records("traffic", "s0", 5)
    assert [item["value"] for item in found] == ["x", {"base64": "/w=="}]


def test_what_happens_is_told_as_it_does(client: Client) -> None:
    applied(client, document("p", 1))
    entries = list(client.journal())
    numbers = [entry["number"] for entry in entries]
    assert numbers == sorted(numbers)
    assert "pipeline p" in {entry["about"] for entry in entries}
    assert list(client.journal(numbers[2], 2)) == entries[3:5]
    events = client.events(0, metrics=1)
    found = list(itertools.islice(events, len(entries) + 1))
    events.close()  # type: ignore[attr-defined]
    kinds = {kind for kind, _, _ in found}
    assert kinds == {"journal", "metrics"}
    [metrics] = [data for kind, _, data in found if kind == "metrics"]
    assert [job["name"] for job in metrics["jobs"]] == ["j0"]


def test_events_go_on_when_the_coordinator_is_started_anew(house: House) -> None:
    with served(house.station) as url:
        port = int(url.rpartition(":")[2])
        house.home.write_address(url, None)
        client = Client.local(house.home.folders.state)
        applied(client, document("p", 1))
        events = client.events(0, metrics=0)
        first = next(events)
    broken: list[str] = []
    with client, served(house.station, port=port):
        applied(client, document("p", 2))
        rest = list(itertools.islice(events, 10))
        events.close()  # type: ignore[attr-defined]
    numbers = [int(number or 0) for _, number, _ in (first, *rest)]
    assert numbers == list(range(numbers[0], numbers[0] + 11))
    assert broken == []


def test_a_change_is_waited_for_through_a_restart(house: House) -> None:
    with served(house.station) as url:
        port = int(url.rpartition(":")[2])
        house.home.write_address(url, None)
        client = Client.local(house.home.folders.state)
        operation = client.apply(document("p", 1))
    with client, served(house.station, port=port):
        assert client.wait(operation["id"], 30)["state"] == "done"


def test_waiting_ends_with_the_time(client: Client) -> None:
    operation = client.apply(document("p", 1))
    view = client.wait(operation["id"], 0)
    assert view["id"] == operation["id"]


def test_tokens_are_made_used_and_taken_back(client: Client, house: House) -> None:
    made = client.issue_token("me", "viewer", pipelines=["p"], expires_seconds=100)
    path = house.home.place / "mine"
    path.write_text(made["token"])
    with Client.of(client.settings.url, path) as mine:
        assert (mine.whoami()["name"], mine.whoami()["pipelines"]) == ("me", ["p"])
        with pytest.raises(Refused) as caught:
            mine.apply(document("p", 1))
        assert caught.value.status == 403
        assert made["id"] in {item["id"] for item in client.tokens()}
        client.revoke_token(made["id"])
        with pytest.raises(Refused) as gone:
            mine.whoami()
        assert gone.value.status == 401
    assert made["token"] not in str(caught.value) + repr(mine) + repr(mine.settings)


def test_code_is_sent_once(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project(tmp_path / "project")
    sent: list[int] = []
    upload = Web.upload

    def counted(web: Web, path: str, content: bytes) -> Any:
        sent.append(len(content))
        return upload(web, path, content)

    monkeypatch.setattr(Web, "upload", counted)
    digest = client.upload_code(file.parent)
    assert client.upload_code(file.parent) == digest
    assert len(sent) == 1
    complete, code = versioned(load(file).required(), file.parent)
    assert code
    assert complete.jobs["clean"].version is None
    operation = applied(client, pipeline_document(complete), code=digest)
    assert operation["state"] == "done"
    (file.parent / "code.py").write_text("def seen(record):\n    return None\n")
    changed, _ = versioned(load(file).required(), file.parent)
    steps = client.plan(pipeline_document(changed))["steps"]
    assert [(step["id"], step["impact"]) for step in steps] == [
        ("change job seen", "restart with state")
    ]


def test_a_version_that_the_file_names_stays(tmp_path: Path) -> None:
    file = project(tmp_path)
    file.write_text(file.read_text().replace('map: "code:seen"', 'map: "code:seen", version: v1'))
    complete, code = versioned(load(file).required(), tmp_path)
    assert (complete.jobs["seen"].version, code) == ("v1", True)


def test_long_lists_come_page_by_page(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.client.client._PAGE", 3)
    applied(client, document("p", 7))
    assert sorted(item["name"] for item in client.jobs("p")) == [f"j{n}" for n in range(7)]
    assert len(list(client.journal())) > 3


def test_problems_of_a_file_come_back(client: Client) -> None:
    wrong = document("p", 1)
    wrong["jobs"]["j0"]["from"] = "gone"
    with pytest.raises(Refused) as caught:
        client.apply(wrong)
    assert caught.value.status == 422
    assert any("gone" in item["message"] for item in caught.value.document["problems"])


def test_code_that_is_too_much_is_not_sent(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.client.code.Limits", _Small)
    project(tmp_path / "project")
    with pytest.raises(OperationFailed, match="are the most"):
        client.upload_code(tmp_path / "project")
    with pytest.raises(OperationFailed, match="can't be read"):
        client.upload_code(tmp_path / "gone")


class _Small:
    bytes, entries = 10, 100
