"""How large the measurements are."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes and counts, by default those of the bars."""

    runs: int = 3
    #: Of mqtt: messages at once, and those before them that only warm up; then a steady rate.
    messages: int = 100_000
    warm_up: int = 10_000
    rate: int = 500
    seconds: int = 20
    #: Of flink: jobs of a chain, and records one after another.
    jobs: int = 100
    records: int = 50

    def say(self, text: str) -> None:
        """Tell how far it is, and how busy the machine is."""
        print(f"  .. {text} (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
