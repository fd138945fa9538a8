"""Evidence that a run was what it claims: load was there, and each fault hit it and did something.

A test that kills a driver after the last record, or kills nothing, proves nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from millrace.measure.report import Report


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected: when (seconds since the epoch), and what was seen of it.

    Such as `Fault("kill driver", 1_700_000_000.0, "driver pid 12 -> 40, batch 3 re-run")`.
    """

    name: str
    at: float
    effect: str = ""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a checker found, with the time of the load and the faults during it."""

    report: Report
    load_started: float
    load_ended: float
    faults: tuple[Fault, ...] = ()

    def problems(self, most_duplicates: int = 0) -> list[str]:
        """Return what is wrong with the records, and what makes the run no proof."""
        found = [] if self.report.sent else ["nothing was sent: the run shows nothing"]
        found += self.report.problems(most_duplicates)
        for fault in self.faults:
            if not self.load_started <= fault.at <= self.load_ended:
                found.append(
                    f"fault {fault.name}: at {fault.at - self.load_started:+.1f} s, outside the "
                    f"load of {self.load_ended - self.load_started:.1f} s: it hit nothing"
                )
            if not fault.effect.strip():
                found.append(f"fault {fault.name}: no effect was seen")
        return found

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, with no duplicates allowed."""
        return not self.problems()

    def document(self, most_duplicates: int = 0) -> dict[str, Any]:
        """Return it as plain data."""
        problems = self.problems(most_duplicates)
        return {
            "ok": not problems,
            "problems": problems,
            "load": {"started": self.load_started, "ended": self.load_ended},
            "faults": [asdict(fault) for fault in self.faults],
            "report": self.report.document(),
        }
