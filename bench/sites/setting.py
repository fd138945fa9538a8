"""How large the measurements are."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes and counts, by default those of the bars."""

    #: Of chains: how often each is measured, and how many jobs they have.
    runs: int = 10
    sizes: tuple[int, ...] = (1, 10, 20, 50, 100)
    sites: int = 6
    seed: int = 1
    #: Of coordinators on fakes.
    jobs: int = 1000
    idle_jobs: int = 100
    rate: int = 50
    api_seconds: float = 20.0
    idle_seconds: float = 30.0

    def say(self, text: str) -> None:
        """Tell how far it is, and how busy the machine is."""
        print(f"  .. {text} (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
