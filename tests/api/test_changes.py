"""Changes at once, changes asked for again, and lists in pages."""

from __future__ import annotations

import threading
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from millrace.api.limits import Limits, Refusals
from millrace.coordinator.tokens import Role
from tests.api.house import BASE, House, document, problem


def test_a_change_for_another_revision_is_refused(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document(), **{"If-Match": '"0"'}))
    for header in ('"0"', '"2"'):
        answer = house.apply(client, document(jobs=2), **{"If-Match": header})
        assert problem(answer, 412, "moved")["revision"] == 1
    answer = client.delete(f"{BASE}/pipelines/p", headers={"If-Match": '"9"'})
    assert problem(answer, 412, "moved")["revision"] == 1
    house.done(client, house.apply(client, document(jobs=2), **{"If-Match": '"1"'}))
    house.done(client, house.apply(client, document(jobs=3), **{"If-Match": "*"}))
    assert client.get(f"{BASE}/pipelines/p").headers["etag"] == '"3"'


def test_conditions_that_can_t_be_read(house: House, client: httpx.Client) -> None:
    for header in ("1", 'W/"1"', '"1", "2"', '"x"', '""', '"01"', '"-1"', ""):
        problem(house.apply(client, document(), **{"If-Match": header}), 400, "bad-header")
    for key in ("", "a b", "x" * 201):
        problem(house.apply(client, document(), **{"Idempotency-Key": key}), 400, "bad-header")
    problem(client.get(f"{BASE}/pipelines/p"), 404, "no-pipeline")


def test_of_changes_at_once_one_is_made(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document(description="0")))
    gate = threading.Barrier(50)

    def change(number: int) -> tuple[int, httpx.Response]:
        gate.wait(20)
        body = document(description=str(number))
        return number, house.apply(client, body, **{"If-Match": '"1"'})

    with ThreadPoolExecutor(50) as pool:
        answers = dict(pool.map(change, range(1, 51)))
    statuses = Counter(answer.status_code for answer in answers.values())
    assert statuses[202] == 1, statuses
    assert set(statuses) <= {202, 409, 412}, statuses
    for answer in answers.values():
        if answer.status_code != 202:
            assert problem(answer, answer.status_code)["revision"] == 2
    (won,) = (number for number, answer in answers.items() if answer.status_code == 202)
    house.done(client, answers[won])
    assert client.get(f"{BASE}/pipelines/p/file").json()["description"] == str(won)
    assert client.get(f"{BASE}/pipelines/p").json()["revision"] == 2


def test_the_same_request_again_changes_nothing_more(house: House, client: httpx.Client) -> None:
    key = {"Idempotency-Key": "5b2f"}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: house.apply(client, document(), **key), range(20)))
    assert {answer.json()["id"] for answer in answers} == {"p.1"}
    assert all(answer.is_success for answer in answers)
    house.done(client, answers[0])
    problem(house.apply(client, document(jobs=2), **key), 422, "key-used")
    # Also after others changed the pipeline, it is answered and not made again.
    house.done(client, house.apply(client, document(jobs=3)))
    again = house.apply(client, document(), **key)
    assert again.json()["id"] == "p.1"
    assert client.get(f"{BASE}/pipelines/p").json()["revision"] == 2
    # The key is its owner's: another token's is another.
    other = {**key, **house.auth()}
    assert house.apply(client, document(jobs=3), **other).json()["wanted"] == 2


def test_pages_hold_everything_once(house: House, client: httpx.Client) -> None:
    for number in range(7):
        house.done(client, house.apply(client, document(f"p{number}")))
    for path, key in (("pipelines", "name"), ("operations", "id"), ("journal", "number")):
        whole = client.get(f"{BASE}/{path}", params={"limit": 1000}).json()
        assert whole["next"] is None
        found, cursor = [], None
        while True:
            params = {"limit": 3, **({"cursor": cursor} if cursor else {})}
            page = client.get(f"{BASE}/{path}", params=params).json()
            assert len(page["items"]) <= 3
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
        assert [one[key] for one in found] == [one[key] for one in whole["items"]]
        assert len(found) >= 7


def test_code_is_looked_at_before_it_is_taken(
    house: House, client: httpx.Client, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("../out.py", "")
    for data, code in ((bad.read_bytes(), "bad-archive"), (b"no archive", "bad-archive")):
        digest = sha256(data).hexdigest()
        assert client.put(f"{BASE}/artifacts/{digest}", content=data).status_code == 201
        body = {"document": document(), "code": digest}
        problem(client.put(f"{BASE}/pipelines/p", json=body), 422, code)
    body = {"document": document(), "code": "0" * 64}
    problem(client.put(f"{BASE}/pipelines/p", json=body), 404, "no-artifact")


def test_changes_are_in_the_journal(house: House, client: httpx.Client) -> None:
    house.done(client, house.apply(client, document()))
    client.post(f"{BASE}/pipelines/p/plan", json={"document": document(jobs=2)})
    client.get(f"{BASE}/pipelines")
    made = client.post(f"{BASE}/tokens", json={"name": "x"}).json()
    client.delete(f"{BASE}/tokens/{made['id']}")
    problem(client.delete(f"{BASE}/tokens/nothing1"), 404, "no-token")
    lines = client.get(f"{BASE}/journal", params={"limit": 1000}).json()["items"]
    told = [(one["about"], one["detail"]) for one in lines if one["about"].startswith("request ")]
    assert told == [
        (f"request PUT {BASE}/pipelines/p", {"by": "t-admin", "status": 202}),
        (f"request POST {BASE}/tokens", {"by": "t-admin", "status": 201}),
        (f"request DELETE {BASE}/tokens/{made['id']}", {"by": "t-admin", "status": 204}),
    ]


def requests_told(house: House) -> list[tuple[str, dict[str, Any]]]:
    entries = house.station.coordinator.tenure.store.entries(0, 10_000)
    return [(it.about, dict(it.detail)) for it in entries if it.about.startswith("request ")]


def test_refused_changes_are_in_the_journal(house: House, client: httpx.Client) -> None:
    """With who asked and the code of the refusal; who is not known is not told of."""
    path = f"{BASE}/pipelines/p"
    with httpx.Client(base_url=client.base_url, headers=house.auth(Role.VIEWER)) as viewer:
        problem(house.apply(viewer, document()), 403, "not-allowed")
        problem(viewer.delete(f"{BASE}/tokens/mr_abcdefgh_{'s' * 43}"), 403, "not-allowed")
        problem(viewer.delete(f"{BASE}/pipelines/{'long' * 500}"), 403, "not-allowed")
        problem(viewer.get(f"{BASE}/tokens"), 403)  # that changes nothing
    problem(house.apply(client, document("q"), Authorization="Bearer nobody"), 401)
    problem(client.put(path, json={"document": document("q")}), 422, "other-name")
    house.done(client, house.apply(client, document()))
    problem(house.apply(client, document(jobs=2), **{"If-Match": '"7"'}), 412, "moved")
    body = {"name": "x", "site": "here"}
    problem(client.post(f"{BASE}/tokens", json=body), 409, "served-here")
    viewer_s = {"by": "t-viewer", "status": 403, "code": "not-allowed"}
    cut = f"{BASE}/pipelines/{'long' * 500}"[:200]
    assert requests_told(house) == [
        (f"request PUT {path}", viewer_s),
        (f"request DELETE {BASE}/tokens/mr_abcdefgh_...", viewer_s),
        (f"request DELETE {cut}", viewer_s),
        (f"request PUT {path}", {"by": "t-admin", "status": 422, "code": "other-name"}),
        (f"request PUT {path}", {"by": "t-admin", "status": 202}),
        (f"request PUT {path}", {"by": "t-admin", "status": 412, "code": "moved"}),
        (f"request POST {BASE}/tokens", {"by": "t-admin", "status": 409, "code": "served-here"}),
    ]


def test_refusals_without_end_don_t_fill_the_journal(house: House) -> None:
    limits = Limits(refusals=3)
    with house.client(Role.VIEWER, limits) as viewer, house.client(limits=limits) as admin:
        for _ in range(10):
            problem(viewer.delete(f"{BASE}/pipelines/p"), 403)
        assert len(requests_told(house)) == 3
        house.done(admin, house.apply(admin, document()))  # others are told of all the same
    assert len(requests_told(house)) == 4


def test_what_was_left_out_is_counted() -> None:
    refusals = Refusals(2)
    assert [refusals.left_out("a", 10.0) for _ in range(5)] == [0, 0, None, None, None]
    assert refusals.left_out("b", 10.0) == 0
    assert refusals.left_out("a", 3609.0) is None
    assert [refusals.left_out("a", 3611.0) for _ in range(3)] == [4, 0, None]
