"""A small experiment that needs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Cell, Declaration, Measure, Quick
from millrace.experiment.matrix import Run
from millrace.experiment.port import Around, Measuring
from millrace.experiment.results import Result

DECLARED = Declaration(
    name="toy",
    of="toy",
    title="Toys",
    about="What toys do.",
    paper="A figure of toys.",
    matrix={"kind": ("a", "b"), "size": (1, 2, 3)},
    setup=("kind",),
    repeats=2,
    seed=5,
    measures=(Measure("time", "s", "how long it took"), Measure("weight", "kg", "of b only")),
    quick=Quick({"size": (1,)}, 1),
)


@dataclass
class Toy:
    """Notes what it is asked for; some runs fail or press Ctrl-C."""

    declared: Declaration = DECLARED
    #: What happened, in order.
    log: list[str] = field(default_factory=list)
    fails: set[tuple[Any, Any, int]] = field(default_factory=set)
    stops_after: int | None = None

    @contextmanager
    def opened(self, cell: Cell, around: Around) -> Iterator[Measuring]:
        self.log.append(f"open {cell['kind']}")
        assert around.folder.is_dir()

        def measure(run: Run) -> Mapping[str, float]:
            self.log.append(f"run {run.cell['kind']}{run.cell['size']} {run.seed}")
            if (run.cell["kind"], run.cell["size"], run.seed) in self.fails:
                raise OperationFailed("toy", "it broke")
            if self.stops_after is not None:
                self.stops_after -= 1
                if self.stops_after < 0:
                    around.stop.set()
                    around.pause(60)
            time = float(run.cell["size"]) + 0.1 * run.repeat
            return {"time": time, "weight": 2.0} if run.cell["kind"] == "b" else {"time": time}

        try:
            yield measure
        finally:
            self.log.append(f"close {cell['kind']}")

    def findings(self, results: Sequence[Result]) -> list[str]:
        return [f"{len(results)} toys were found."]

    def draw(self, results: Sequence[Result], axes: Any) -> None:
        axes.plot([r.cell["size"] for r in results], [r.values["time"] for r in results], "o")
