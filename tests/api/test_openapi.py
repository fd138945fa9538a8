"""The API's description: whole, and the same each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from millrace.api.app import routes
from tests.api.house import BASE

DOCUMENT = routes().openapi()
FILE = Path(__file__).parents[2] / "docs" / "openapi.json"


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def test_it_is_written_down_and_served(client: httpx.Client) -> None:
    assert json.loads(FILE.read_text()) == DOCUMENT == routes().openapi()
    assert client.get(f"{BASE}/openapi.json").json() == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1")


def test_every_operation_is_described() -> None:
    seen = set()
    for name, operation in operations():
        assert operation["operationId"] not in seen, name
        seen.add(operation["operationId"])
        assert operation["tags"], name
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["security"] == [{"bearer": []}], name
        for status in ("401", "403"):
            content = operation["responses"][status]["content"]
            assert list(content) == ["application/problem+json"], name
        for body in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in body or body["schema"].get("format") == "binary", name
    text = json.dumps(DOCUMENT)
    assert "HTTPValidationError" not in text
    for reference in set(json.loads(text.replace('"$ref"', '"ref"'))["components"]["schemas"]):
        assert f"#/components/schemas/{reference}" in text, reference
