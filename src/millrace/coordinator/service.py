"""A coordinator: pipelines by the store, kept so by the agent of the sites on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from millrace.agent.agent import Agent, Place
from millrace.coordinator.board import Board
from millrace.coordinator.operation import Operation
from millrace.coordinator.tenure import Tenure
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.ports.link import PipelineGoal, PipelineReport

#: How long a phase of a change may take that is not known to have failed.
PATIENCE_SECONDS = 300.0


@dataclass(slots=True)
class Coordinator:
    """Takes changes from any thread; `tick` is called by one, again and again."""

    tenure: Tenure
    agent: Agent
    clock: Callable[[], float]
    #: Gives each operation a name of its own.
    names: Callable[[], str]
    patience: float = PATIENCE_SECONDS
    _boards: dict[str, Board] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        """Read what the store has."""
        store, now = self.tenure.store, self.clock()
        for name in store.load("pipeline"):
            self._boards[name] = Board.restored(store, name, now)

    def apply(self, wanted: Pipeline) -> Operation:
        """Begin to change a pipeline; returning promises that this survives a crash."""
        with self._lock:
            board = self._boards.get(wanted.name) or Board.empty(wanted.name)
            after, change = board.submitted(wanted, self.names())
            self.tenure.commit(change)
            self._boards[wanted.name] = after
            return self.operation(wanted.name)

    def operation(self, pipeline: str) -> Operation:
        """Return the last change of a pipeline."""
        board = self._boards.get(pipeline)
        if board is None or board.operation is None:
            raise OperationFailed(
                "no-pipeline", f"there is no pipeline {pipeline}", "apply its file first"
            )
        return board.operation

    def tick(self) -> dict[Place, PipelineReport]:
        """Tell sites what they shall be, hear what they are, and decide what comes next."""
        with self._lock:
            goals = self._goals()
        reports = self.agent.exchange(goals)
        with self._lock:
            for name, board in list(self._boards.items()):
                mine = {site: report for (of, site), report in reports.items() if of == name}
                after, change = board.ticked(mine, self.clock(), self.patience)
                if change is not None:
                    self.tenure.commit(change)
                    self._boards[name] = after
        return reports

    def _goals(self) -> dict[Place, PipelineGoal]:
        return {
            (name, site): goal
            for name, board in self._boards.items()
            for site, goal in board.goals().items()
        }
