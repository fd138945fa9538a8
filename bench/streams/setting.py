"""How large the measurements are."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes and counts; `quick` ones only show that all of it works."""

    runs: int = 5
    warm_ups: int = 2
    records: int = 1_000_000
    rates: tuple[int, ...] = (50, 1000)
    latency_seconds: int = 120
    latency_warm_seconds: int = 10
    checkpoint_seconds: int = 30
    chain: tuple[int, ...] = (1, 10, 20, 50, 100)
    chain_records: int = 20
    keys: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    idle_seconds: float = 20.0

    def say(self, text: str) -> None:
        """Tell how far it is."""
        print(f"  .. {text}", file=sys.stderr, flush=True)


def quick() -> Setting:
    """Return sizes for a few minutes on a busy machine; their figures are no proof of anything."""
    return Setting(
        runs=1,
        warm_ups=1,
        records=50_000,
        latency_seconds=20,
        latency_warm_seconds=3,
        checkpoint_seconds=10,
        chain=(1, 5),
        chain_records=10,
        keys=(1_000, 10_000),
        idle_seconds=5.0,
    )
