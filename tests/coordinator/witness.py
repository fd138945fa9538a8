"""Who newly reads a stream, and where: what a world of fake sites holds coordinators to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.coordinator.board import Board
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key, World
from millrace.model.stream import Transport
from millrace.plan.fuse import as_queries
from millrace.ports.link import JobGoal


@dataclass(slots=True, eq=False)
class FakeLog:
    """A stream of one partition; one that is made again is another one."""

    records: int = 0

    @property
    def ends(self) -> dict[int, int]:
        return {0: self.records} if self.records else {}


@dataclass(slots=True)
class Witness:
    """What was there when a change was asked for."""

    #: The number of the file that is wanted.
    number: int = 0
    lengths: dict[Key, tuple[FakeLog, int]] = field(default_factory=dict)
    #: By job: what it followed, by itself or in its query.
    read: dict[str, set[Key]] = field(default_factory=dict)
    #: The folders of the queries that were there.
    folders: dict[str, int] = field(default_factory=dict)
    #: How many starts were looked at in which somebody read a log that was made anew.
    anew: int = 0
    #: How many starts were looked at in which somebody read a stream newly that was there.
    joined: int = 0

    def note(self, board: Board, logs: Mapping[Key, FakeLog]) -> None:
        """See what is there as a change is asked for."""
        in_force, self.number = board.file, board.newest + 1
        self.folders = {name: it.goal.folder for name, it in board.deployment.jobs.items()}
        world, queries = World(in_force), as_queries(in_force)
        kept = (name for name, s in queries.streams.items() if s.transport is Transport.KAFKA)
        keys = {world.stream_key(name) for name in kept}
        self.lengths = {key: (logs[key], logs[key].records) for key in keys if key in logs}
        self.read = {}
        for query in queries.jobs.values():
            for one in query.members or (query,):
                self.read[one.name] = {world.stream_key(name) for name in query.follows}

    def check(self, file: Pipeline, query: Job, goal: JobGoal, logs: Mapping[Key, FakeLog]) -> None:
        """A query starts: new readers begin where streams were, or at their first records."""
        for name in query.follows:
            key, begins = World(file).stream_key(name), goal.begins.get(file.streams[name].address)
            if key in self.lengths and logs[key] is not self.lengths[key][0]:
                self.anew += 1
                assert begins is None, f"{query.name} reads {name}, made anew, from {begins}"
                assert goal.folder > self.folders.get(query.name, 0)
            if goal.revision != self.number or any(
                key in self.read.get(one.name, ()) for one in query.members or (query,)
            ):
                continue
            log, length = self.lengths.get(key, (None, 0))
            if log is None or logs[key] is not log:
                assert begins is None, f"{query.name} reads {name} from {begins}, which is new"
                continue
            self.joined += 1
            assert begins is not None, f"{query.name} reads {name} from its first record"
            assert length <= begins.get(0, 0) <= log.records
