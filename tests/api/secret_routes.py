"""Asks everything that the API's description lets one ask, with the names that there are."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import httpx

from millrace.api.app import routes
from tests.api.house import BASE

#: A stream of events does not end by itself: all of the journal came when numbers come.
_ENOUGH = b"event: metrics"
#: What each route is asked with, beside its names.
_ASKED = {
    f"{BASE}/events": {"after": "0", "metrics": "0.2"},
    f"{BASE}/journal": {"limit": "1000"},
}


def gets() -> list[str]:
    """Return the paths that can be asked, as the description has them."""
    return [path for path, methods in routes().openapi()["paths"].items() if "get" in methods]


def known(client: httpx.Client, **more: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of all that is known, by what a path calls them."""
    found: dict[str, list[str]] = {"pipeline": _listed(client, "pipelines", "name")}
    found["site"] = _listed(client, "sites", "name")
    found["operation"] = _listed(client, "operations", "id")
    for pipeline in found["pipeline"]:
        for kind in ("job", "stream"):
            names = _listed(client, f"pipelines/{pipeline}/{kind}s", "name")
            found.setdefault(kind, []).extend(names)
    found["job_name"] = found.get("job", [])
    return {**found, **{name: list(values) for name, values in more.items()}}


def _listed(client: httpx.Client, what: str, name: str) -> list[str]:
    answer = client.get(f"{BASE}/{what}", params={"limit": 500})
    assert answer.status_code == 200, answer.text
    return [item[name] for item in answer.json()["items"]]


def answers(
    client: httpx.Client, names: Mapping[str, Sequence[str]], agent: Mapping[str, str]
) -> Iterator[tuple[str, int, bytes]]:
    """Yield what each route answers, with its status; what is for agents is asked as one."""
    for path in gets():
        kinds = re.findall(r"\{(\w+)\}", path)
        headers = agent if "/agent/" in path else {}
        for chosen in itertools.product(*(names.get(kind, []) for kind in kinds)):
            given = dict(zip(kinds, chosen, strict=True))
            for asked in _asked(path, names):
                status, body = _answer(client, path.format(**given), asked, headers)
                yield path, status, body


def _asked(path: str, names: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    if path.startswith("/jobs"):
        return [{"pipeline": name} for name in names["pipeline"]]
    return [_ASKED.get(path, {})]


def _answer(
    client: httpx.Client, path: str, asked: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[int, bytes]:
    with client.stream("GET", path, params=dict(asked), headers=dict(headers)) as answer:
        head = repr(answer.headers).encode()
        if "event-stream" not in answer.headers.get("content-type", ""):
            return answer.status_code, head + answer.read()
        body = b""
        for piece in answer.iter_raw():
            body += piece
            if _ENOUGH in body:
                break
        return answer.status_code, head + body
