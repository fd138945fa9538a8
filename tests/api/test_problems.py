"""Every error is a problem, and tells nothing that it should not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.api.limits import Limits
from millrace.api.problems import bare, problem_of, status_of
from millrace.errors import BrokenInvariant, OperationFailed
from tests.api.house import BASE, House, document, opened, problem

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("problems")) as found:
        yield found


@pytest.fixture(scope="module")
def client(house: House) -> Iterator[httpx.Client]:
    with house.client() as found:
        yield found


def test_paths_and_methods_that_are_not_there(client: httpx.Client) -> None:
    for path in ("/", "/nothing", f"{BASE}/", f"{BASE}/pipelines/", "/docs", "/openapi.json"):
        problem(client.get(path), 404, "no-path")
    answer = client.patch(f"{BASE}/pipelines")
    problem(answer, 405, "no-method")
    assert answer.headers["allow"] == "GET"
    assert client.head(f"{BASE}/pipelines").status_code == 405


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": "\\ud800"}', b"9" * 5000, b"[" * 100_000],
)
def test_bodies_that_are_no_json(client: httpx.Client, body: bytes) -> None:
    for path in (f"{BASE}/tokens", f"{BASE}/pipelines/p/plan", "/jobs"):
        problem(client.post(path, content=body, headers=JSON), 400, "bad-json")


def test_json_that_is_too_deep(client: httpx.Client) -> None:
    for depth in (65, 500, 990, 5_000, 1_000_000):
        deep = '{"document": ' + "[" * depth + "]" * depth + "}"
        answer = client.put(f"{BASE}/pipelines/p", content=deep, headers=JSON)
        assert "nested" in problem(answer, 400, "bad-json")["detail"]


def test_bodies_that_are_too_large(house: House) -> None:
    with house.client(limits=Limits(body=10_000)) as client:
        large = b'"' + b"x" * 20_000 + b'"'
        problem(client.post(f"{BASE}/tokens", content=large, headers=JSON), 413, "too-large")
        unsaid = client.post(f"{BASE}/tokens", content=iter([large]), headers=JSON)
        problem(unsaid, 413, "too-large")


def test_bodies_of_another_type(client: httpx.Client) -> None:
    problem(client.post(f"{BASE}/tokens", content=b"a: b"), 415, "other-type")
    for kind in ("text/plain", "application/yaml", "x" * 500):
        answer = client.post(f"{BASE}/tokens", content=b"a", headers={"Content-Type": kind})
        problem(answer, 415, "other-type")


def test_all_that_is_wrong_with_a_file_comes_at_once(client: httpx.Client) -> None:
    text = "pipeline: p\njobs:\n  a: {from: x, to: y, sqll: z}\nsites:\n  s: {brokr: 1}\n"
    answer = client.put(
        f"{BASE}/pipelines/p", content=text, headers={"Content-Type": "application/yaml"}
    )
    found = problem(answer, 422, "bad-file")
    assert len(found["problems"]) > 1
    assert found["location"].startswith("body:")
    lines = {one["location"]["line"] for one in found["problems"] if "location" in one}
    assert {3, 5} <= lines
    wrong = {**document(), "jbos": {}}
    answer = client.put(f"{BASE}/pipelines/p", json={"document": wrong})
    assert problem(answer, 422, "bad-file")["location"].startswith("document:")
    problem(client.put(f"{BASE}/pipelines/q", json={"document": document()}), 422, "other-name")


def test_a_file_may_not_include_others(client: httpx.Client) -> None:
    text = "pipeline: p\ninclude: [/etc/passwd]\n"
    answer = client.post(
        f"{BASE}/pipelines/p/plan", content=text, headers={"Content-Type": "text/yaml"}
    )
    assert "root:" not in problem(answer, 422, "bad-file")["detail"]


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/pipelines", {"limit": 0}),
        ("/pipelines", {"limit": "x" * 100}),
        ("/journal", {"after": 2**63}),
        ("/journal", {"after": "9" * 5000}),
        ("/operations/p.1", {"wait": "nan"}),
        ("/events", {"metrics": -1}),
        ("/pipelines/a b", {}),
        ("/pipelines/p/file", {"revision": -1}),
    ],
)
def test_parameters_that_are_wrong(client: httpx.Client, path: str, params: Any) -> None:
    assert problem(client.get(BASE + path, params=params), 422, "bad-request")["problems"]


@pytest.mark.parametrize("cursor", ["x", "WzFd", "W10", "bnVsbA", "WyJhIiwxXQ", "é"])
def test_cursors_that_no_list_gave(client: httpx.Client, cursor: str) -> None:
    problem(client.get(f"{BASE}/pipelines", params={"cursor": cursor}), 400, "bad-cursor")


def test_what_nobody_foresaw(
    house: House, client: httpx.Client, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, tmp_path: Path,
) -> None:  # fmt: skip
    def broken(_: object) -> None:
        raise BrokenInvariant(f"see {tmp_path}/state.db")

    monkeypatch.setattr(type(house.station), "sites", broken)
    with caplog.at_level(logging.ERROR):
        answer = client.get(f"{BASE}/sites")
    problem(answer, 500, "unexpected")
    assert "Traceback" not in answer.text
    assert str(tmp_path) not in answer.text
    assert "BrokenInvariant" in caplog.text


def test_a_full_disk_keeps_nothing_and_can_be_tried_again(
    house: House, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = type(house.station.coordinator.tenure.store)
    full = OperationFailed(
        "disk-full", f"there is no room for the state in {tmp_path}/state.db", transient=True
    )

    def commit(*_: object) -> int:
        raise full

    key = {"Idempotency-Key": "once"}
    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", commit)
        answer = house.apply(client, document(), **key)
        found = problem(answer, 507, "disk-full")
        assert str(tmp_path) not in json.dumps(found)
        problem(client.get(f"{BASE}/pipelines/p"), 404)
        problem(client.post(f"{BASE}/tokens", json={"name": "x"}), 507, "disk-full")
    house.done(client, house.apply(client, document(), **key))


def test_codes_have_their_statuses() -> None:
    expected = {
        "no-job": 404, "no-state": 503, "no-answer": 504, "no-role": 422, "busy": 409,
        "conflict": 409, "moved": 412, "key-used": 422, "disk-full": 507, "too-large": 413,
        "other-content": 422, "bad-archive": 422, "superseded": 503, "served-here": 409,
        "anything": 422,
    }  # fmt: skip
    assert {code: status_of(OperationFailed(code, "")) for code in expected} == expected
    assert status_of(OperationFailed("anything", "", transient=True)) == 503
    assert problem_of(OSError(28, "No space left")).status == 507


def test_texts_are_bare() -> None:
    secret = "A" * 43
    told = bare(f"mr_abcdefgh_{secret} in /tmp/a/b/state.db, PUT /api/v1/artifacts/DIGEST")
    assert told == "mr_abcdefgh_... in state.db, PUT /api/v1/artifacts/DIGEST"
