"""A token's text is in the answer that made it, and nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from tests.api.house import BASE, House, document


def test_a_token_is_shown_once(
    house: House, client: httpx.Client, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    made = client.post(f"{BASE}/tokens", json={"name": "marked", "role": "admin"}).json()
    text: str = made["token"]
    secret = text.split("_", 2)[2]
    headers = {"Authorization": f"Bearer {text}"}
    answers = [
        client.get(f"{BASE}/whoami", headers=headers),
        client.get(f"{BASE}/tokens", headers=headers),
        client.get(f"{BASE}/tokens/{text}", headers=headers),
        client.delete(f"{BASE}/tokens/{text}", headers=headers),
        client.get(f"{BASE}/pipelines/{text}", headers=headers),
        client.get(f"/{text}", headers=headers),
        client.get(f"{BASE}/pipelines", params={"cursor": text, "limit": text}, headers=headers),
        client.post(f"{BASE}/tokens", json={"name": "x", text: text}, headers=headers),
        client.post(f"{BASE}/tokens", json={"name": "x", "role": text}, headers=headers),
        house.apply(client, document(), **headers, **{"If-Match": text}),
        house.apply(client, document(), **headers),
        client.get(f"{BASE}/journal", params={"limit": 1000}, headers=headers),
        client.get(f"{BASE}/events", headers={"Authorization": f"Bearer {text}x"}),
    ]
    for answer in answers:
        assert secret not in answer.text, answer.request.url
        assert secret not in str(answer.headers)
    server = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith("http")
    )
    assert secret not in server
    for path in house.home.place.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    first = house.home.token.read_text().strip().split("_", 2)[2].encode()
    kept = [path.name for path in tmp_path.rglob("*") if path.is_file()
            and first in path.read_bytes()]  # fmt: skip
    assert kept == ["token"]
