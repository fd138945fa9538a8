"""Whatever is sent, no answer is a mistake of the server's; for FUZZ_SECONDS, by default 60.

For two thirds of that time each operation is asked by itself, half of the requests being against
its description; then operations are asked one after another along the links of the description,
with what the one before answered.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode

from millrace.api.app import routes
from millrace.api.limits import Limits
from tests.api.fuzzing import Sender
from tests.api.house import House, document, opened

SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
THERE = {"pipeline": "p", "job": "j0", "stream": "s0", "site": "here", "operation": "p.1"}
#: In a walk along links pipelines have these names: there are not more of them than can be served.
NAMES = ("p", "q", "r")
JSON = "application/json"
#: However slow a machine is: one round against the description, one by it.
ROUNDS = 2


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("fuzz")) as found:
        yield found


@contextmanager
def served(house: House) -> Iterator[Sender]:
    """Serve a pipeline; what was sent meanwhile hindered nobody."""
    with house.client(limits=Limits(silent_seconds=5)) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        house.done(client, house.apply(client, document()))
        yield Sender(house, str(client.base_url))
        house.done(client, house.apply(client, document("after")))


def description() -> Any:
    return schemathesis.openapi.from_dict(routes().openapi())


@pytest.mark.timeout(SECONDS + 120)
def test_nothing_that_is_sent_breaks_it(house: House) -> None:
    operations: list[Any] = [one.ok() for one in list[Any](description().get_all_operations())]
    with served(house) as sender:
        end, rounds = time.monotonic() + SECONDS * 2 / 3, 0
        while time.monotonic() < end or rounds < ROUNDS:
            rounds += 1
            for operation in operations:
                if time.monotonic() > end and rounds > ROUNDS:
                    break
                _fuzzed(operation, sender, rounds)
    assert sender.seen[200] > 10, sender.seen
    assert sender.streams[200] > 2, sender.streams
    assert sender.streams[422] > 0, sender.streams


def _fuzzed(operation: Any, sender: Sender, number: int) -> None:
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
        sender.send(case)

    with suppress(Unsatisfiable):
        send()


def walking(sender: Sender) -> Any:
    """Return a machine that asks along the links of the description, and counts where it came."""
    along = description()
    along.config.generation.update(modes=[GenerationMode.POSITIVE], with_security_parameters=False)
    along.config.phases.stateful.inference.algorithms.clear()

    class Walk(along.as_state_machine()):  # type: ignore[misc]
        #: By link: how often it was followed, and led to something.
        followed: ClassVar[Counter[str]] = Counter()

        def before_call(self, case: Any) -> None:
            """Let a file be right where a walk comes to one, which one that is drawn never is."""
            given, number = case.path_parameters or {}, sum(sender.seen.values())
            if "pipeline" in given:
                given["pipeline"] = NAMES[len(given["pipeline"]) % len(NAMES)]
            if number % 4:
                case.headers.pop("if-match", None)
            if case.operation.definition.raw["operationId"] in ("put_pipeline", "plan_pipeline"):
                file = document(given["pipeline"], jobs=1 + number % 3)
                case.body, case.media_type = {"document": file, "allow_state_loss": True}, JSON

        def call(self, case: Any, **_: Any) -> Any:
            return sender.send(case)

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            """It was looked at as it came."""

        def step(self, given: Any) -> Any:
            output = super().step(given)
            if given.transition is not None and given.is_applied and output is not None:
                self.followed[given.transition.id] += output.response.status_code < 300
            return output

    return Walk


@pytest.mark.timeout(SECONDS + 120)
def test_nothing_that_follows_from_an_answer_breaks_it(house: House) -> None:
    with served(house) as sender:
        machine = walking(sender)
        end, number = time.monotonic() + SECONDS / 3, 0
        while time.monotonic() < end:
            number += 1
            run_state_machine_as_test(
                seed(number)(machine),
                settings=settings(
                    max_examples=3,
                    stateful_step_count=20,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
    links = {link for link, count in machine.followed.items() if count}
    print(f"{sum(sender.seen.values())} requests along {len(links)} links")  # noqa: T201 - for -s
    assert len(links) > 5, machine.followed
    assert sender.streams[200] > 0, sender.seen
