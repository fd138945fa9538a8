"""Whatever is sent, no answer is a mistake of the server's; for FUZZ_SECONDS, by default 60."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from millrace.api.app import routes
from millrace.api.limits import Limits
from millrace.coordinator.tokens import Role
from tests.api.house import House, document, opened

SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
#: What the server may answer that is no fault of the request: each is declared.
DECLARED = frozenset({503, 504, 507})
THERE = {"pipeline": "p", "job": "j0", "stream": "s0", "site": "here", "operation": "p.1"}
#: These wait by design; a stream has no end.
LEFT_OUT = ("/api/v1/events",)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


@pytest.mark.timeout(SECONDS + 120)
def test_nothing_that_is_sent_breaks_it(house: House) -> None:
    schema = schemathesis.openapi.from_dict(routes().openapi())
    found: list[Any] = [one.ok() for one in list[Any](schema.get_all_operations())]
    operations = [one for one in found if one.path not in LEFT_OUT]
    seen: Counter[int] = Counter()
    with house.client(limits=Limits(silent_seconds=5)) as client:
        house.done(client, house.apply(client, document()))
        admin, site = house.auth(Role.ADMIN), house.auth(Role.VIEWER, site="far")
        end = time.monotonic() + SECONDS
        rounds = 0
        while time.monotonic() < end:
            rounds += 1
            for operation in operations:
                if time.monotonic() > end:
                    break
                agent = operation.path.startswith("/api/v1/agent")
                _fuzzed(operation, str(client.base_url), site if agent else admin, seen, rounds)
        house.done(client, house.apply(client, document("after")))
    assert seen[200] > 10, seen


def _fuzzed(
    operation: Any, url: str, headers: dict[str, str], seen: Counter[int], number: int
) -> None:
    """Send a few requests to an operation, half of them against its description."""
    mode = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[number % 2]

    @seed(number)
    @settings(
        max_examples=6,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        # Or no request would be about something that is there; which shall stay there.
        if number % 3 and case.method != "DELETE":
            known = {name: THERE[name] for name in case.path_parameters or {} if name in THERE}
            case.path_parameters = {**(case.path_parameters or {}), **known}
        if "wait" in (case.query or {}):
            case.query["wait"] = 0
        answer = case.call(base_url=url, headers=headers, timeout=30)
        seen[answer.status_code] += 1
        told = f"{case.method} {case.formatted_path} {case.query} {case.body!r}: {answer.text}"
        assert answer.status_code < 500 or answer.status_code in DECLARED, told
        if answer.status_code >= 400 and case.method != "HEAD":
            kind = answer.headers["content-type"][0]
            plain = answer.status_code == 400 and kind.startswith("text/plain")  # h11's own
            assert plain or kind == "application/problem+json", told

    with suppress(Unsatisfiable), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send()
