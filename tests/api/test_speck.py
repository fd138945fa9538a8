"""The session of SpecK's paper: a composition, its next version, and jobs one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.api.house import House, problem

FIXTURES = Path(__file__).parents[1] / "fixtures"
YAML = {"Content-Type": "application/yaml"}


def listing(number: str) -> str:
    """A listing of the paper, with brokers and engines that Millrace runs."""
    text = (FIXTURES / f"speck-listing-{number}.yaml").read_text()
    text = text.replace("tcp://", "kafka://").replace(":1883", ":9092")
    return text.replace("http://", "spark://").replace(":8081/", ":7077")


def names(client: httpx.Client) -> list[str]:
    return sorted(job["job_name"] for job in client.get("/jobs").json()["items"])


def described(name: str, **more: str) -> dict[str, Any]:
    return {
        "job_name": name,
        "entry_class": "package.ExampleJob",
        "job_path": "/usr/src/app/jars/test-9.jar",
        "spe_address": "spark://172.16.192.18:7077",
        "source_broker": "kafka://172.16.192.18:9092",
        "sink_broker": "kafka://172.16.192.18:9092",
        "source_topic": "T-C-filter",
        "sink_topic": f"T-{name}",
        **more,
    }


def test_the_paper_s_session(house: House, client: httpx.Client) -> None:
    assert client.get("/jobs").json() == {"items": [], "next": None}
    answer = client.post("/compositions", content=listing("1.1"), headers=YAML)
    assert answer.status_code == 202
    assert answer.headers["location"] == "/api/v1/operations/speck.1"
    assert house.done(client, answer)["state"] == "done"
    assert names(client) == ["A", "B", "C", "D"]
    job = client.get("/jobs/A").json()
    assert job == {
        "job_name": "A",
        "entry_class": "package.ExampleJob",
        "job_path": "/usr/src/app/jars/test-1.jar",
        "spe_address": "spark://172.16.39.7:7077",
        "source_broker": "kafka://172.16.39.7:9092",
        "sink_broker": "kafka://172.16.192.18:9092",
        "source_topic": "T-1",
        "sink_topic": "T-C-filter",
        "state": "running",
    }
    again = client.post("/compositions", content=listing("1.1"), headers=YAML)
    assert (again.status_code, again.json()["total"]) == (200, 0)
    body = {"document": client.get("/api/v1/pipelines/speck/file").json()}
    assert client.post("/api/v1/pipelines/speck/plan", json=body).json()["steps"] == []
    second = client.post("/compositions", content=listing("1.2"), headers=YAML)
    assert second.status_code == 202
    assert second.json()["wanted"] == 2


def test_the_listings_as_they_are_printed(client: httpx.Client) -> None:
    text = (FIXTURES / "speck-listing-1.1.yaml").read_text()
    answer = client.put("/api/v1/pipelines/other", content=text, headers=YAML)
    assert (answer.status_code, answer.json()["id"]) == (202, "other.1")


def test_jobs_one_by_one(house: House, client: httpx.Client) -> None:
    for name in ("X", "Y"):  # the second comes while the first is on its way
        answer = client.post("/jobs", json=described(name))
        assert answer.status_code == 202, answer.text
    house.done(client, answer)
    assert names(client) == ["X", "Y"]
    changed = client.post("/jobs", json=described("X", job_path="/other.jar"))
    house.done(client, changed)
    assert client.get("/jobs/X").json()["job_path"] == "/other.jar"
    assert names(client) == ["X", "Y"]
    key = {"Idempotency-Key": "gone"}
    gone = client.delete("/jobs/Y", headers=key)
    assert house.done(client, gone)["state"] == "done"
    assert names(client) == ["X"]
    assert client.delete("/jobs/Y", headers=key).json()["id"] == gone.json()["id"]
    problem(client.delete("/jobs/Y"), 404, "no-job")
    problem(client.get("/jobs/Y"), 404, "no-job")
    assert client.get("/jobs", params={"pipeline": "else"}).json()["items"] == []


def test_jobs_that_are_not_described_well(client: httpx.Client) -> None:
    missing = described("X")
    del missing["job_path"]
    found = problem(client.post("/jobs", json=missing), 422, "bad-request")
    assert "job_path" in found["detail"]
    problem(client.post("/jobs", json={**described("X"), "more": "x"}), 422, "bad-request")
    problem(client.post("/jobs", json={**described("X"), "job_name": 1}), 422, "bad-request")
    wrong = {**described("X"), "spe_address": "nowhere", "sink_broker": "x"}
    assert len(problem(client.post("/jobs", json=wrong), 422, "bad-file")["problems"]) == 2
    twice = "jobs:\n" + 2 * listing("1.1").removeprefix("jobs:\n")
    problem(client.post("/compositions", content=twice, headers=YAML), 422, "bad-file")
