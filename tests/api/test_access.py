"""Who may do what: enumerated from the API's own description, so a new route is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter

from millrace.api import app as app_module
from millrace.api.app import routes
from millrace.coordinator.tokens import Role
from tests.api.house import BASE, House, document, opened, problem

OPERATIONS = [
    (method.upper(), path, operation["x-millrace-role"])
    for path, methods in routes().openapi()["paths"].items()
    for method, operation in methods.items()
]
#: All there is. A route that is added is added here, by somebody who thought of its role.
KNOWN = """
GET /api/v1/pipelines viewer
GET /api/v1/pipelines/{pipeline} viewer
PUT /api/v1/pipelines/{pipeline} operator
DELETE /api/v1/pipelines/{pipeline} operator
POST /api/v1/pipelines/{pipeline}/plan viewer
GET /api/v1/pipelines/{pipeline}/file viewer
GET /api/v1/pipelines/{pipeline}/revisions viewer
POST /api/v1/pipelines/{pipeline}/rollback operator
GET /api/v1/pipelines/{pipeline}/jobs viewer
GET /api/v1/pipelines/{pipeline}/jobs/{job} viewer
GET /api/v1/pipelines/{pipeline}/jobs/{job}/log viewer
GET /api/v1/pipelines/{pipeline}/streams viewer
GET /api/v1/pipelines/{pipeline}/streams/{stream} viewer
GET /api/v1/pipelines/{pipeline}/streams/{stream}/records operator
GET /api/v1/sites viewer
GET /api/v1/sites/{site} viewer
GET /api/v1/operations viewer
GET /api/v1/operations/{operation} viewer
GET /api/v1/journal viewer
GET /api/v1/events viewer
GET /api/v1/whoami any
GET /api/v1/tokens admin
POST /api/v1/tokens admin
DELETE /api/v1/tokens/{token} admin
GET /api/v1/artifacts/{digest} operator
PUT /api/v1/artifacts/{digest} operator
GET /api/v1/agent/goal site
POST /api/v1/agent/report site
GET /api/v1/agent/artifacts/{digest} site
PUT /api/v1/agent/artifacts/{digest} site
GET /jobs viewer
POST /jobs operator
GET /jobs/{job_name} viewer
DELETE /jobs/{job_name} operator
POST /compositions operator
GET /api/v1/openapi.json any
"""
CLIENT = httpx.Client(timeout=20)


@pytest.fixture(scope="module", autouse=True)
def connections() -> Iterator[None]:
    yield
    CLIENT.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("access")) as found:
        yield found


@pytest.fixture(scope="module")
def url(house: House) -> Iterator[str]:
    with house.served() as found:
        yield found


def asked(url: str, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    there = re.sub(r"\{digest\}", "0" * 64, path)
    there = re.sub(r"\{operation\}", "nothing.1", there)
    there = re.sub(r"\{\w+\}", "nothing", there)
    return CLIENT.request(method, url + there, headers=headers)


def test_every_route_says_what_it_asks() -> None:
    assert [" ".join(operation) for operation in OPERATIONS] == KNOWN.split("\n")[1:-1]


def test_a_route_that_says_nothing_is_closed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    router = APIRouter()

    @router.get("/forgotten")
    def forgotten() -> str:
        return "open"

    resource = type("Resource", (), {"router": router})
    monkeypatch.setattr(app_module, "_RESOURCES", (*app_module._RESOURCES, resource))
    assert routes().openapi()["paths"]["/forgotten"]["get"]["x-millrace-role"] == "nobody"
    with house.served() as here:
        problem(httpx.get(f"{here}/forgotten", headers=house.auth()), 403, "not-allowed")
        problem(httpx.get(f"{here}/forgotten"), 401, "no-access")


def test_nothing_is_told_without_a_token_that_holds(house: House, url: str) -> None:
    clock = house.station.keyring.clock
    expired = house.auth(expires=clock() - 1)
    revoked = house.auth()
    house.station.keyring.revoke(revoked["Authorization"].split("_")[1], "test")
    good = house.auth()["Authorization"]
    wrong = [
        {},
        {"Authorization": good[:-1] + ("a" if good[-1] != "a" else "b")},
        {"Authorization": good.replace("Bearer", "Basic")},
        {"Authorization": "Bearer x"},
        expired,
        revoked,
    ]
    for method, path, _ in OPERATIONS:
        for headers in wrong:
            answer = asked(url, method, path, headers)
            problem(answer, 401, "no-access")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_roles_end_where_they_end(house: House, url: str) -> None:
    ranks = {"viewer": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN}
    for role in Role:
        headers = house.auth(role)
        for method, path, needed in OPERATIONS:
            if needed == "site" or (needed in ranks and role < ranks[needed]):
                problem(asked(url, method, path, headers), 403, "not-allowed")


def test_a_site_s_token_does_nothing_else(house: House, url: str) -> None:
    headers = house.auth(Role.ADMIN, site="far")
    for method, path, needed in OPERATIONS:
        if needed not in ("site", "any"):
            problem(asked(url, method, path, headers), 403, "not-allowed")
    assert asked(url, "GET", f"{BASE}/whoami", headers).json()["site"] == "far"


def test_a_token_for_some_pipelines_sees_those(house: House, url: str) -> None:
    with httpx.Client(base_url=url, headers=house.auth(), timeout=40) as admin:
        for name in ("mine", "theirs"):
            house.done(admin, house.apply(admin, document(name)))
    headers = house.auth(Role.OPERATOR, pipelines=frozenset({"mine", "next"}))
    with httpx.Client(base_url=f"{url}{BASE}", headers=headers, timeout=40) as client:

        def items(path: str, **params: Any) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get(path, params=params).json()["items"]
            return found

        assert [view["name"] for view in items("/pipelines")] == ["mine"]
        assert {view["pipeline"] for view in items("/operations")} == {"mine"}
        (site,) = items("/sites")
        assert (site["pipelines"], list(site["brokers"])) == (["mine"], ["mine"])
        about = {view["about"] for view in items("/journal", limit=1000)}
        assert about == {"pipeline mine", "operation mine.1", f"request PUT {BASE}/pipelines/mine"}
        # Of what is not its own it can't tell what is there: all answers are the same.
        other = client.get("/pipelines/theirs")
        told = problem(other, 403, "not-allowed")
        for path in ("/pipelines/nobodys", "/pipelines/%2e", "/operations/theirs.1", "/tokens"):
            found = problem(client.get(path), 403, "not-allowed")
            assert found["detail"] == told["detail"]
        problem(client.get("/operations/nonsense"), 403, "not-allowed")
        body = {"document": document("theirs")}
        problem(client.put("/pipelines/theirs", json=body), 403)
        problem(client.put("/pipelines/mine", json=body), 422, "other-name")
        assert client.put("/pipelines/next", json={"document": document("next")}).is_success
        problem(httpx.get(f"{url}/jobs", headers=headers), 403, "not-allowed")
        assert httpx.get(f"{url}/jobs?pipeline=next", headers=headers).status_code in (200, 422)
        twice = f"{url}/jobs?pipeline=next&pipeline=theirs"
        problem(httpx.get(twice, headers=headers), 403, "not-allowed")
