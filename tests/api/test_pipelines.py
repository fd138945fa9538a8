from __future__ import annotations

import httpx

from tests.api.house import BASE, House, document, problem, until


def test_a_pipeline_lives(house: House, client: httpx.Client) -> None:
    answer = house.apply(client, document(jobs=2))
    assert answer.status_code == 202
    assert answer.headers["location"] == f"{BASE}/operations/p.1"
    assert answer.headers["etag"] == '"1"'
    view = house.done(client, answer)
    assert view["state"] == "done"
    assert view["by"] == "t-admin"

    found = client.get(f"{BASE}/pipelines/p")
    assert found.headers["etag"] == '"1"'
    assert found.json()["state"] == "running"
    jobs = client.get(f"{BASE}/pipelines/p/jobs").json()["items"]
    assert sorted(one["name"] for one in jobs) == ["j0", "j1"]
    assert client.get(f"{BASE}/pipelines/p/jobs/j1").json()["reads"] == ["s1"]
    assert client.get(f"{BASE}/pipelines/p/streams/s1").json()["writers"] == ["j0"]
    assert client.get(f"{BASE}/pipelines/p/file").json()["pipeline"] == "p"
    assert client.get(f"{BASE}/sites/here").json()["pipelines"] == ["p"]

    again = house.apply(client, document(jobs=2))
    assert again.status_code == 200
    assert again.json()["total"] == 0


def test_a_file_is_planned_applied_and_taken_back(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document(jobs=2)))
    plan = client.post(f"{BASE}/pipelines/p/plan", json={"document": document(jobs=3)})
    assert plan.status_code == 200
    assert plan.json()["revision"] == 1
    assert {step["name"] for step in plan.json()["steps"]} >= {"j2", "s3"}

    house.done(client, house.apply(client, document(jobs=3)))
    back = client.post(
        f"{BASE}/pipelines/p/rollback",
        json={"revision": 1, "note": "back", "allow_state_loss": True},
    )
    house.done(client, back)
    revisions = client.get(f"{BASE}/pipelines/p/revisions").json()["items"]
    assert [(one["number"], one["note"], one["in_force"]) for one in revisions] == [
        (3, "back", True),
        (2, "", False),
        (1, "", False),
    ]
    assert "j2" in client.get(f"{BASE}/pipelines/p/file", params={"revision": 2}).json()["jobs"]
    problem(client.get(f"{BASE}/pipelines/q"), 404, "no-pipeline")


def test_removing_begins_and_stops_the_jobs(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document()))
    answer = client.delete(f"{BASE}/pipelines/p", headers={"If-Match": '"1"'})
    assert answer.status_code == 202
    assert answer.headers["location"] == f"{BASE}/operations/p.2"
    engine = house.shops["p", "here"].spark
    until(lambda: engine.jobs["j0"].state == "stopped")
    problem(client.delete(f"{BASE}/pipelines/q"), 404, "no-pipeline")


def test_a_removed_pipeline_is_gone(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document()))
    house.done(client, client.delete(f"{BASE}/pipelines/p"), wait=3)
    assert client.get(f"{BASE}/pipelines").json() == {"items": [], "next": None}
