"""What agents are told at once, what they tell, and what they fetch."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import Any

import httpx
import pytest

from millrace.api.limits import Limits
from millrace.coordinator.tokens import Role
from millrace.ports.link import PipelineReport, SiteReport
from millrace.spec import FileFormat, load_text
from millrace.wire import goal_of, report_document
from tests.api.house import BASE, House, document, problem, until


def far(name: str = "p") -> dict[str, Any]:
    """A pipeline at a site that an agent must join."""
    body = document(name)
    body["sites"]["here"]["host"] = "far.example"
    return body


def goal(client: httpx.Client, headers: dict[str, str], **params: Any) -> httpx.Response:
    return client.get(f"{BASE}/agent/goal", params=params, headers=headers)


def test_a_goal_is_told_once_and_again_when_it_changes(house: House, client: httpx.Client) -> None:
    headers = house.auth(Role.VIEWER, site="here")
    first = goal(client, headers).json()
    text = json.dumps(first["goal"], sort_keys=True)
    assert first["sum"] == hashlib.sha256(text.encode()).hexdigest()
    assert goal(client, headers, known=first["sum"], wait=0.2).status_code == 204

    answers: list[tuple[float, httpx.Response]] = []

    def wait() -> None:
        answers.append((time.monotonic(), goal(client, headers, known=first["sum"], wait=20)))
        answers.append((time.monotonic(), answers[0][1]))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    changed = time.monotonic()
    assert house.apply(client, far()).status_code == 202
    waiting.join(10)
    assert answers[1][0] - changed < 2
    second = answers[0][1].json()
    assert second["sum"] != first["sum"]
    told = goal_of(
        second["goal"],
        lambda it: load_text(json.dumps(it), "g", file_format=FileFormat.NATIVE).required(),
    )
    assert "p" in told.pipelines


def test_a_wait_holds_no_thread(house: House) -> None:
    """More waits than any pool has threads, and others are served meanwhile."""
    tokens = [house.auth(Role.VIEWER, site=f"s{number}") for number in range(2)]
    with house.client(limits=Limits(looks=1)) as client:
        sums = [goal(client, headers).json()["sum"] for headers in tokens]
        limits = httpx.Limits(max_connections=120)
        url = client.base_url
        with httpx.Client(base_url=url, timeout=30, limits=limits) as many:
            threads = [
                threading.Thread(
                    target=goal,
                    args=(many, tokens[number % 2]),
                    kwargs={"known": sums[number % 2], "wait": 3},
                )
                for number in range(100)
            ]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            begun = time.monotonic()
            for _ in range(10):
                assert client.get(f"{BASE}/pipelines").status_code == 200
            assert time.monotonic() - begun < 2
            for thread in threads:
                thread.join(20)


def test_what_an_agent_tells_is_heard(house: House, client: httpx.Client) -> None:
    headers = house.auth(Role.VIEWER, site="here")
    report = SiteReport("here", 1, {"p": PipelineReport(broker="far.example:9092")})
    answer = client.post(f"{BASE}/agent/report", json=report_document(report), headers=headers)
    assert answer.status_code == 204
    site = client.get(f"{BASE}/sites/here").json()
    assert (site["served"], site["state"]) == ("joined", "up")
    other = report_document(SiteReport("elsewhere", 1))
    problem(client.post(f"{BASE}/agent/report", json=other, headers=headers), 403, "other-site")
    for wrong in ("[]", '{"site": 1}', '{"generation": 1}', '"x"', "null"):
        kind = {**headers, "Content-Type": "application/json"}
        answer = client.post(f"{BASE}/agent/report", content=wrong, headers=kind)
        problem(answer, 422, "bad-message")
    lines = client.get(f"{BASE}/journal").json()["items"]
    assert not any("agent" in line["about"] for line in lines)


def test_a_question_reaches_the_agent_and_its_answer_comes_back(
    house: House, client: httpx.Client
) -> None:
    headers = house.auth(Role.VIEWER, site="here")
    house.apply(client, far())
    board = until(lambda: house.station.coordinator.boards.get("p"))
    assert board.busy
    problem(client.get(f"{BASE}/pipelines/p/jobs/j9/log"), 404, "no-job")
    first = goal(client, headers).json()
    assert first["goal"]["pipelines"]["p"]["examined"] == 1


def test_logs_and_records_of_a_site_here(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document()))
    shop = house.shops["p", "here"]
    (shop.folder / "j0.log").write_text("one\ntwo\n")
    log = client.get(f"{BASE}/pipelines/p/jobs/j0/log", params={"after": 0}).json()
    assert log == {"text": "one\ntwo\n", "next": 8}
    assert client.get(f"{BASE}/pipelines/p/streams/s0/records").json()["items"] == []
    problem(client.get(f"{BASE}/pipelines/p/streams/no/records"), 404, "no-stream")


@pytest.mark.parametrize("base", ["/artifacts", "/agent/artifacts"])
def test_artifacts(house: House, client: httpx.Client, base: str) -> None:
    site = {"site": "far"} if base.startswith("/agent") else {}
    headers = house.auth(Role.OPERATOR, **site)
    data = b"code" * 100_000
    digest = hashlib.sha256(data).hexdigest()
    place = f"{BASE}{base}/{digest}"
    problem(client.get(place, headers=headers), 404, "no-artifact")
    cut = client.put(place, content=data[:-1], headers=headers)
    problem(cut, 422, "other-content")
    problem(client.get(place, headers=headers), 404, "no-artifact")
    assert client.put(place, content=data, headers=headers).status_code == 201
    again = client.put(place, content=iter([data[:9], data[9:]]), headers=headers)
    assert again.status_code == 200
    got = client.get(place, headers=headers)
    if site:
        assert got.content == data
        part = client.get(place, headers={**headers, "Range": "bytes=4-7"})
        assert (part.status_code, part.content) == (206, b"code")
    else:
        assert (got.status_code, got.content) == (204, b"")
    problem(client.get(f"{BASE}{base}/short", headers=headers), 422, "bad-request")
    assert [path.name for path in house.home.artifacts.folder.iterdir()] == [digest]


@pytest.mark.parametrize(("code", "disk"), [(1000, 9000), (9000, 1000)])
def test_artifacts_that_are_too_large(
    house: House, monkeypatch: pytest.MonkeyPatch, code: int, disk: int
) -> None:
    small = type(house.home.artifacts)(house.home.artifacts.folder, largest=disk)
    monkeypatch.setattr(house.station, "artifacts", small)
    data = b"x" * 5000
    place = f"{BASE}/artifacts/{hashlib.sha256(data).hexdigest()}"
    with house.client(limits=Limits(code=code)) as client:
        problem(client.put(place, content=data), 413, "too-large")
        problem(client.put(place, content=iter([data])), 413, "too-large")
    assert not list(small.folder.iterdir())


def test_what_a_site_hands_over_may_be_larger_than_code(house: House) -> None:
    data = b"x" * 5000
    headers = house.auth(Role.OPERATOR, site="far")
    with house.client(limits=Limits(code=1000)) as client:
        place = f"{BASE}/agent/artifacts/{hashlib.sha256(data).hexdigest()}"
        assert client.put(place, content=data, headers=headers).status_code == 201


def test_a_sender_that_stands_still_is_sent_away(house: House) -> None:
    with house.client(limits=Limits(silent_seconds=0.2)) as client:

        def slow() -> Any:
            yield b"x"
            time.sleep(1)
            yield b"y"

        place = f"{BASE}/artifacts/{'0' * 64}"
        problem(client.put(place, content=slow()), 408, "too-slow")
