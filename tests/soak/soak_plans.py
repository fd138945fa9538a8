"""Long seeded campaigns: plans tried out, and documents mutated, by the ten thousand.

`make soak` runs them; SEED and CASES in the environment choose which and how many.
"""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from millrace.model import Pipeline
from millrace.spec import load_text
from tests.plan.simulator import Lost
from tests.plan.test_plan_properties import pairs, seeded_world, try_out
from tests.spec.test_fuzz import CORPUS, mutated

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "40000"))


def test_seeded_pairs_lose_nothing() -> None:
    for number in range(CASES):
        chance = random.Random(f"{SEED}-{number}")
        old = seeded_world(chance)
        new = seeded_world(chance, like=old)
        try:
            try_out(old, new, number, orders=3)
        except Lost as error:
            message = f"case {number} of SEED={SEED}: {error}"
            raise AssertionError(message) from error


@seed(SEED)
@settings(
    max_examples=max(CASES // 20, 1),
    deadline=None,
    derandomize=False,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(pairs(), st.integers(0, 2**32))
def test_plans_lose_nothing(pair: tuple[Pipeline, Pipeline], order: int) -> None:
    try_out(*pair, order, orders=2)


def test_mutated_documents_only_give_diagnostics() -> None:
    chance = random.Random(SEED)
    for number in range(CASES * 2):
        text = mutated(chance.choice(CORPUS), chance)
        try:
            loaded = load_text(text, "seed")
            assert loaded.pipeline is not None or loaded.diagnostics
            assert all(item.message and item.hint for item in loaded.diagnostics)
        except Exception as error:
            message = f"case {number} of SEED={SEED}: {text!r}"
            raise AssertionError(message) from error
