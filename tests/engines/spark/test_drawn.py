"""Random pipelines give the same fused, apart, in real time, in batches and drained."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from millrace.model.graph import in_order
from millrace.ports import Record
from tests.engines.spark.drawn import CODE, VARIANTS, Row, drawn
from tests.engines.spark.lab import Case, Lab, json_record, objects, wait_until

SEED = int(os.environ.get("SEED", "1"))
#: The first that hypothesis draws is always the smallest.
PIPELINES = int(os.environ.get("PIPELINES", "3"))
pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(150 * PIPELINES)]


def rows(chance: random.Random) -> list[Row]:
    return [
        {"id": n, "k": chance.choice("abc"), "v": chance.randint(0, 20), "at": moment(n)}
        for n in range(chance.randint(50, 150))
    ]


def moment(number: int) -> str:
    return f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"


def outcome(case: Case, name: str) -> Counter[object]:
    """The rows of a stream; of counts, which grow, the last of each window and key."""
    found = objects(case.read(name))
    if not name.endswith("n"):
        return Counter((row["id"], row["k"], row["v"]) for row in found)
    last: dict[tuple[int, str], int] = {}
    for row in found:
        place = (int(row["start"][14:16]), row["k"])
        last[place] = max(row["v"], last.get(place, 0))
    return Counter((minute, k, n) for (minute, k), n in last.items())


@seed(SEED)
@settings(
    max_examples=PIPELINES,
    phases=[Phase.generate],  # to make a failure smaller would take hours
    derandomize=False,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(chance=st.randoms(use_true_random=False))
def test_results_do_not_depend_on_how_it_is_run(lab: Lab, chance: random.Random) -> None:
    pipeline, records = drawn(chance), rows(chance)
    wanted = pipeline.wanted(records)
    for variant in VARIANTS:
        if not pipeline.may(variant):
            continue
        with lab.case(pipeline.text(variant), code=CODE) as case:
            sent = [json_record(row["k"], **row) for row in records]
            case.send("raw", [*sent, Record(b"no json")])
            case.examine()
            if variant == "drained":
                for name in case.heads(job.name for job in in_order(case.pipeline)):
                    case.drain(name)
            else:
                case.start()
            for name, counts in wanted.items():
                case.read(name, counts.total())
                wait_until(
                    lambda name=name, counts=counts: outcome(case, name) == counts,  # type: ignore[misc]
                    lambda name=name: f"{name}: {outcome(case, name)}\n{pipeline.text(variant)}",  # noqa: B023
                )
            assert [r.value for r in case.read("dead", 1)].count(b"no json") == 1
