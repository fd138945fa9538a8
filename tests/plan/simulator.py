"""A world that knows only streams, positions and readers, to try plans out on.

It imports nothing of Millrace: a plan comes as the documents that `millrace plan -o json` prints,
worlds as plain data. A record is a position in a stream; a job that reads one writes one to each
of its outputs. Whatever a job was to read and nobody can read any more is lost, unless all that
would have come of it is removed as well.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: A stream's name and the site it is at.
Sid = tuple[str, str]


@dataclass(frozen=True)
class JobSpec:
    reads: tuple[Sid, ...]
    writes: tuple[Sid, ...]
    rejects: tuple[Sid, ...] = ()
    #: All else that makes the job what it is.
    content: str = ""


@dataclass(frozen=True)
class Worlds:
    """What is there before and what is wanted."""

    old_streams: frozenset[Sid]
    new_streams: frozenset[Sid]
    old_jobs: Mapping[str, JobSpec]
    new_jobs: Mapping[str, JobSpec]
    old_brokers: frozenset[str]
    new_brokers: frozenset[str]
    #: Places whose brokers are there whatever a plan does.
    attached: frozenset[str] = frozenset()

    def seen(self, name: str) -> bool:
        """Whether somebody could see later what a job makes of a record."""
        ways, been = [name], set()
        while ways:
            job = ways.pop()
            if job in been:
                continue
            been.add(job)
            spec = self.old_jobs[job]
            out = {*spec.writes, *spec.rejects}
            if job in self.new_jobs or not spec.writes or out & self.new_streams:
                return True
            ways += [one for one, other in self.old_jobs.items() if out & set(other.reads)]
        return False


class Lost(AssertionError):
    """A record was lost, or a job met a stream that is not there."""


@dataclass
class Job:
    spec: JobSpec
    positions: dict[Sid, int]


@dataclass
class Simulator:
    worlds: Worlds
    random: random.Random
    logs: dict[Sid, int] = field(default_factory=dict)
    began: dict[Sid, int] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)
    stopped: dict[str, Job] = field(default_factory=dict)
    finals: dict[tuple[str, Sid], int] = field(default_factory=dict)
    wrote: dict[tuple[str, Sid], int] = field(default_factory=dict)
    replaced: frozenset[Sid] = frozenset()
    anew: set[Sid] = field(default_factory=set)
    brokers: set[str] = field(default_factory=set)

    def apply(self, steps: list[dict[str, Any]]) -> None:
        """Do the steps in a random order that `after` allows, with traffic in between."""
        self._begin(steps)
        waiting = {step["id"]: step for step in steps}
        while waiting:
            ready = [
                step for step in waiting.values() if not any(a in waiting for a in step["after"])
            ]
            if not ready:
                raise Lost(f"these steps wait for each other: {sorted(waiting)}")
            step = self.random.choice(ready)
            for _ in range(self.random.randrange(4)):
                self._traffic()
            self._do(step)
            del waiting[step["id"]]
        self._settle()
        self._check()

    def _begin(self, steps: list[dict[str, Any]]) -> None:
        self.replaced = frozenset(
            (step["name"], step["place"])
            for step in steps
            if step["kind"] == "stream" and step["impact"] == "replace"
        )
        self.brokers = set(self.worlds.old_brokers)
        self.logs = {sid: self.random.randrange(5) for sid in self.worlds.old_streams}
        for name, spec in self.worlds.old_jobs.items():
            positions = {sid: self.random.randint(0, self.logs[sid]) for sid in spec.reads}
            self.running[name] = Job(spec, positions)
        self.began = dict(self.logs)

    def _traffic(self) -> None:
        written = {sid for spec in self.worlds.old_jobs.values() for sid in spec.writes}
        outside = [
            sid
            for sid in self.worlds.old_streams & self.worlds.new_streams
            if sid not in written and sid not in self.replaced
        ]
        if outside and self.random.random() < 0.5:
            self.logs[self.random.choice(sorted(outside))] += self.random.randint(1, 3)
        for name in sorted(self.running):
            job = self.running[name]
            for sid in job.spec.reads:
                if self.random.random() < 0.5:
                    self._read(name, job, sid, self.random.randint(0, 3))

    def _read(self, name: str, job: Job, sid: Sid, most: int | None = None) -> bool:
        if sid not in self.logs:
            raise Lost(f"{name} reads {sid}, which is not there")
        left = self.logs[sid] - job.positions[sid]
        count = left if most is None else min(left, most)
        if count <= 0:
            return False
        job.positions[sid] += count
        for out in job.spec.rejects:
            if out not in self.logs:
                raise Lost(f"{name} has no place for malformed records: {out} is not there")
        for out in job.spec.writes:
            if out not in self.logs:
                raise Lost(f"{name} writes {out}, which is not there")
            self.logs[out] += count
            self.wrote[name, out] = self.logs[out]
        return True

    def _do(self, step: dict[str, Any]) -> None:
        if step["kind"] == "stream":
            self._stream(step, (step["name"], step["place"]))
        elif step["kind"] == "job":
            self._job(step, step["name"])
        elif step["kind"] == "broker":
            self._broker(step["action"], step["place"])

    def _broker(self, action: str, place: str) -> None:
        if action == "create":
            self.brokers.add(place)
        elif action == "delete":
            left = [sid for sid in self.logs if sid[1] == place]
            if left:
                raise Lost(f"the broker at {place} goes while it has {left}")
            self.brokers.discard(place)

    def _stream(self, step: dict[str, Any], sid: Sid) -> None:
        if step["action"] == "create":
            if sid in self.logs:
                raise Lost(f"{sid} is there already")
            if sid[1] not in self.brokers | self.worlds.attached:
                raise Lost(f"{sid} has no broker to be at")
            self.logs[sid] = 0
        elif step["action"] == "delete":
            self._read_out(sid, "removed")
            del self.logs[sid]
        elif step["action"] == "change" and step["impact"] != "in place":
            if any(sid in spec.writes for spec in self.worlds.old_jobs.values()):
                self._read_out(sid, "changed")
            self._unused(sid)
            if step["impact"] == "replace":
                self.logs[sid] = self.began[sid] = 0
                self.anew.add(sid)

    def _unused(self, sid: Sid) -> None:
        for name, job in self.running.items():
            if sid in (*job.spec.reads, *job.spec.writes, *job.spec.rejects):
                raise Lost(f"{name} uses {sid} while it is changed or removed")

    def _read_out(self, sid: Sid, what: str) -> None:
        self._unused(sid)
        for name, spec in self.worlds.old_jobs.items():
            late = sid in spec.reads and self.finals.get((name, sid), -1) < self.logs[sid]
            if late and self.worlds.seen(name):
                raise Lost(f"{sid} is {what}, but {name} had not read it to its end")

    def _job(self, step: dict[str, Any], name: str) -> None:
        action = step["action"]
        if action in ("stop", "delete", "change", "move") and name in self.running:
            job = self.running[name]
            for sid in job.spec.reads:
                if sid[0] in step["drains"]:
                    self._read(name, job, sid)
                self.finals[name, sid] = job.positions[sid]
            self.stopped[name] = self.running.pop(name)
        elif action == "create" and name in self.running:
            raise Lost(f"{name} runs already")
        if action in ("create", "start", "change", "move"):
            self._start(name, step["keeps"])

    def _start(self, name: str, keeps: list[str]) -> None:
        spec = self.worlds.new_jobs[name]
        before = self.stopped.pop(name).positions if name in self.stopped else {}
        positions = {}
        for sid in spec.reads:
            if sid not in self.logs:
                raise Lost(f"{name} starts before {sid} is there")
            if sid in self.anew and sid in before:
                if "checkpoint" in keeps:
                    raise Lost(f"{name} goes on in {sid} at a position that is gone")
                positions[sid] = 0
                continue
            positions[sid] = before.get(sid, self.began.get(sid, 0))
        self.running[name] = Job(spec, positions)

    def _settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for name, job in self.running.items():
                for sid in job.spec.reads:
                    moved |= self._read(name, job, sid)

    def _check(self) -> None:
        if set(self.logs) != set(self.worlds.new_streams):
            raise Lost(f"streams are {sorted(self.logs)}")
        if {name: job.spec for name, job in self.running.items()} != dict(self.worlds.new_jobs):
            raise Lost(f"jobs are {self.running}")
        if self.brokers != set(self.worlds.new_brokers):
            raise Lost(f"brokers are at {sorted(self.brokers)}")
        for sid in self.worlds.old_streams & self.worlds.new_streams:
            self._check_kept(sid)

    def _check_kept(self, sid: Sid) -> None:
        """Those who left a stream that stays read all that was there, and all that those wrote
        who left it too."""
        old, new = self.worlds.old_jobs, self.worlds.new_jobs
        left = [
            name
            for name, spec in old.items()
            if sid in spec.reads
            and (name not in new or sid not in new[name].reads)
            and self.worlds.seen(name)
        ]
        writers = [
            name
            for name, spec in old.items()
            if sid in spec.writes and (name not in new or sid not in new[name].writes)
        ]
        for name in left:
            if self.finals[name, sid] < self.began[sid]:
                raise Lost(f"{name} left {sid} before it had read what was there")
            for writer in writers:
                if self.finals[name, sid] < self.wrote.get((writer, sid), 0):
                    raise Lost(f"{name} left {sid} before it had read what {writer} wrote")
