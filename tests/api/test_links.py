"""The links of the API's description: each leads from a good answer to another one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest

from millrace.api.app import routes
from millrace.api.describing import LINKS
from millrace.coordinator.tokens import Role
from tests.api.house import House, document, opened
from tests.api.test_speck import YAML, described, listing

DOCUMENT = routes().openapi()
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
CODE = b"something"
#: What each operation is asked for, where a link does not say it.
PLAIN: dict[str, dict[str, Any]] = {
    "get_pipeline": {"pipeline": "p"},
    "put_pipeline": {"pipeline": "p", "json": {"document": document(jobs=2)}},
    "plan_pipeline": {"pipeline": "p", "json": {"document": document(jobs=2)}},
    "delete_pipeline": {"pipeline": "p"},
    "rollback_pipeline": {"pipeline": "p", "json": {"revision": 1}},
    "list_jobs": {"pipeline": "p"},
    "get_job": {"pipeline": "p", "job": "j0"},
    "list_streams": {"pipeline": "p"},
    "get_stream": {"pipeline": "p", "stream": "s0"},
    "list_revisions": {"pipeline": "p"},
    "get_operation": {"operation": "p.1"},
    "create_token": {"json": {"name": "x"}},
    "put_artifact": {"digest": sha256(CODE).hexdigest(), "content": CODE},
    "send_artifact": {"digest": sha256(CODE).hexdigest(), "content": CODE},
    "post_speck_job": {"json": described("E")},
    "delete_speck_job": {"job_name": "A"},
    "post_composition": {"content": listing("1.2"), "headers": YAML},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("links")) as found:
        yield found


@pytest.fixture(scope="module")
def client(house: House) -> Iterator[httpx.Client]:
    with house.client() as found:
        yield found


def asked(
    house: House, client: httpx.Client, name: str, **given: Any
) -> tuple[dict[str, Any], httpx.Response]:
    """Ask an operation, by what a link gives and else plainly; a change is waited for."""
    method, path, operation = OPERATIONS[name]
    plain = {**PLAIN.get(name, {}), **given}
    parts = [it["name"] for it in operation.get("parameters", ())]
    told = {part: plain.pop(part) for part in parts if part in plain}
    query = {part: value for part, value in told.items() if f"{{{part}}}" not in path}
    headers = plain.pop("headers", {})
    if path.startswith("/api/v1/agent"):
        headers = {**headers, **house.auth(Role.VIEWER, site="edge")}
    url = path.format_map(told)
    request = client.build_request(method, url, params=query, headers=headers, **plain)
    stream = name == "follow_events"
    answer = client.send(request, stream=stream)
    if stream:
        assert next(answer.iter_raw()).startswith(b": here")
        answer.close()
    assert answer.is_success, (name, told, answer.text)
    if answer.status_code == 202:
        assert house.done(client, answer)["state"] == "done"
    return {**told, "json": plain.get("json")}, answer


def meant(expression: str, told: dict[str, Any], answer: httpx.Response) -> Any:
    """What an expression of a link means, of the kinds that are in use."""
    where, _, pointer = expression.partition("#/")
    if where.startswith("$request.path."):
        return told[where.removeprefix("$request.path.")]
    found = {"$request.body": told["json"], "$response.body": None}[where]
    found = answer.json() if where == "$response.body" else found
    for part in pointer.split("/"):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


@pytest.mark.parametrize("source", LINKS)
def test_a_link_leads_somewhere(house: House, client: httpx.Client, source: str) -> None:
    for target, given in LINKS[source].items():
        house.done(client, house.apply(client, document()))
        if "speck" in source + target:
            house.done(client, client.post("/compositions", content=listing("1.1"), headers=YAML))
        told, answer = asked(house, client, source)
        found = {name: meant(text, told, answer) for name, text in given.items()}
        asked(house, client, target, **found)


def test_links_are_told_of_every_answer_that_is_good() -> None:
    assert LINKS.keys() <= OPERATIONS.keys()
    for name, (_, _, operation) in OPERATIONS.items():
        for status, response in operation["responses"].items():
            links = response.get("links", {})
            assert links.keys() == (LINKS.get(name, {}).keys() if int(status) < 300 else set())
            for target, link in links.items():
                assert link["operationId"] == target
                known = {it["name"] for it in OPERATIONS[target][2]["parameters"]}
                assert link["parameters"].keys() <= known
