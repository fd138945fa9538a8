"""Requests that a fuzzer makes: how they are sent, and what every answer must be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import requests
from schemathesis.core.transport import Response

from millrace.coordinator.tokens import Role
from tests.api.house import House

#: What the server may answer that is no fault of the request: each is declared.
DECLARED = frozenset({503, 504, 507})
EVENTS = "/api/v1/events"
#: A stream says something at once; of one that goes on without end so much is read.
HEAD_BYTES, HEAD_SECONDS = 2_000, 10.0


@dataclass
class Sender:
    """Sends what a fuzzer made to a coordinator, and looks at each answer."""

    house: House
    url: str
    #: Answers, and streams that were opened, by status.
    seen: Counter[int] = field(default_factory=Counter)
    streams: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._admin = self.house.auth(Role.ADMIN)
        self._site = self.house.auth(Role.VIEWER, site="far")

    def headers(self, case: Any) -> dict[str, str]:
        """Return the token of who may ask that."""
        return self._site if case.operation.path.startswith("/api/v1/agent") else self._admin

    def send(self, case: Any) -> Response:
        """Send a request; what is answered has the form that every answer has."""
        if "wait" in (case.query or {}):
            case.query["wait"] = 0
        if case.operation.path == EVENTS:
            found = self._head(case)
        else:
            found = case.call(base_url=self.url, headers=self.headers(case), timeout=30)
        self.seen[found.status_code] += 1
        check(case, found)
        return found

    def _head(self, case: Any) -> Response:
        """Open a stream of events, read how it begins, and go."""
        asked = case.as_transport_kwargs(base_url=self.url, headers=self.headers(case))
        with requests.request(**asked, stream=True, timeout=HEAD_SECONDS) as opened:
            self.streams[opened.status_code] += 1
            head = next(opened.iter_content(HEAD_BYTES), b"")
            opened._content = head
            found = Response.from_requests(opened, verify=False)
        if found.status_code == 200 and case.method == "GET":
            assert found.headers["content-type"][0].startswith("text/event-stream"), found.headers
            assert head.startswith(b": here\n\n"), head
        return found


def check(case: Any, answer: Response) -> None:
    """No answer is a mistake of the server's, and every refusal is a problem."""
    told = f"{case.method} {case.formatted_path} {case.query} {case.body!r}: {answer.text}"
    status = answer.status_code
    assert status < 500 or status in DECLARED, told
    if status >= 400 and case.method != "HEAD":
        kind = answer.headers["content-type"][0]
        plain = status == 400 and kind.startswith("text/plain")  # h11's own
        assert plain or kind == "application/problem+json", told
