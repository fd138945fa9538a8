"""The steps of a plan before they are put in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millrace.model.impact import Impact
from millrace.model.job import Job
from millrace.model.places import Key, World
from millrace.model.site import BrokerKind
from millrace.model.status import Facts
from millrace.model.step import Action, Kind, Reason, Step
from millrace.model.stream import Stream, Transport
from millrace.plan.changes import (
    JobChange,
    job_change,
    keeps,
    same_inputs,
    same_order,
    state_keepers,
    stateful,
    stream_reasons,
)
from millrace.plan.diff import differences
from millrace.plan.reasons import (
    GONE,
    NEW,
    pilot_reasons,
    site_reasons,
    stream_moves,
)
from millrace.plan.unheard import unheard

WRITTEN = "written from outside; stop the writers first, what comes later is not read"
READ = "read from outside; read it to the end before you apply, the records go with the stream"
DIRECT = "direct; only the buffers at both ends hold it while its reader starts again"
GOES_ON = "state goes on where the new code fits it; where it does not, the start is refused"
THEIRS = "at a broker that is not ours; the topic goes only if Millrace made it"
UNREAD = "not running; what they have not read is not read any more"
REORDERED = "written from outside; records of one key may change places as the partitions do"


@dataclass(slots=True)
class Draft:
    """What is different between two worlds, as steps.

    `last` of a job is the step in which its old version stops, `first` the one in which its new
    version starts; mostly they are one and the same. `quiet` are streams that are changed while
    none of their jobs runs, and whether their log is made anew.
    """

    old: World
    new: World
    facts: Facts
    down: frozenset[str] = frozenset()
    #: Whether streams stay that are no longer wanted.
    keeps: bool = False
    steps: dict[str, Step] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    streams: dict[tuple[Action, Key], str] = field(default_factory=dict)
    brokers: dict[tuple[Action, Key], str] = field(default_factory=dict)
    pilots: dict[tuple[Action, Key], str] = field(default_factory=dict)
    quiet: dict[Key, bool] = field(default_factory=dict)
    #: What a user must know before applying: the notes, each with the things it is about.
    notes: dict[str, list[str]] = field(default_factory=dict)

    def fill(self) -> None:
        """Collect the steps of every kind."""
        self._pilots()
        self._brokers()
        for key, stream in self.new.streams.items():
            self._stream(key, stream)
        for key, stream in self.old.streams.items():
            if key not in self.new.streams:
                self._stream_gone(key, stream)
        for name in self.new.pipeline.jobs:
            self._job(name)
        for name, job in self.old.pipeline.jobs.items():
            if name not in self.new.pipeline.jobs:
                self.last[name] = self._add(self._job_gone(job))
                if name in self.down and job.inputs:
                    self.notes.setdefault(UNREAD, []).append(name)
        self._spare()
        for key in self.quiet:
            self._quieten(key)

    def _spare(self) -> None:
        """Let jobs stop at once that would only work for streams which go with them."""
        gone = {key for action, key in self.streams if action is Action.DELETE}
        if self.keeps or not gone:
            return
        for name in unheard(self.old, self.new.pipeline.jobs.keys(), gone):
            step = self.last[name]
            self.steps[step] = replace(self.steps[step], drains=())

    def _add(self, step: Step) -> str:
        if step.kind is Kind.JOB:
            job = self.old.pipeline.jobs.get(step.name) or self.new.pipeline.jobs[step.name]
            step = replace(step, stateful=stateful(job, self.facts))
        self.steps[step.id] = step
        return step.id

    def _pilots(self) -> None:
        old, new = self.old.pipeline, self.new.pipeline
        for key, name in self.new.pilots.items():
            pilot, why = new.pilots[name], pilot_reasons(name, old, new)
            if key not in self.old.pilots:
                step = Step(Action.CREATE, Kind.PILOT, name, pilot.resource, None, why or (NEW,))
                self.pilots[Action.CREATE, key] = self._add(step)
            elif why:
                self._add(_changed(Kind.PILOT, name, pilot.resource, why))
        for key, name in self.old.pilots.items():
            if key not in self.new.pilots:
                why, place = pilot_reasons(name, old, new) or (GONE,), old.pilots[name].resource
                step = Step(Action.DELETE, Kind.PILOT, name, place, Impact.REPLACE, why)
                self.pilots[Action.DELETE, key] = self._add(step)

    def _brokers(self) -> None:
        old, new = self.old.pipeline, self.new.pipeline
        for key, site in self.new.brokers.items():
            name = site.name
            if key not in self.old.brokers:
                why = site_reasons(name, old, new) or (NEW,)
                step = Step(Action.CREATE, Kind.BROKER, name, name, None, why)
                self.brokers[Action.CREATE, key] = self._add(step)
            elif why := differences(self.old.brokers[key].broker, site.broker):
                self._add(_changed(Kind.BROKER, name, name, why))
        for key, site in self.old.brokers.items():
            if key not in self.new.brokers:
                why = site_reasons(site.name, old, new) or (GONE,)
                step = Step(Action.DELETE, Kind.BROKER, site.name, site.name, Impact.REPLACE, why)
                self.brokers[Action.DELETE, key] = self._add(step)

    def _stream(self, key: Key, stream: Stream) -> None:
        place, old = stream.site or "", self.old.streams.get(key)
        if old is None:
            was = self.old.pipeline.streams.get(stream.name)
            why = NEW
            if was is not None:
                why = stream_moves(was, stream, self.old.pipeline, self.new.pipeline)[0]
            step = Step(Action.CREATE, Kind.STREAM, stream.name, place, None, (why,))
            self.streams[Action.CREATE, key] = self._add(step)
            return
        reasons = stream_reasons(old, stream)
        if not reasons:
            return
        step = _changed(Kind.STREAM, stream.name, place, reasons)
        self.streams[Action.CHANGE, key] = self._add(step)
        if step.impact is not Impact.IGNORE:
            self.quiet[key] = step.impact is Impact.REPLACE
        if step.impact is Impact.REPLACE:
            self._note_outside(key, old)
        if not same_order(stream, old) and key not in self.new.writers:
            self.notes.setdefault(REORDERED, []).append(stream.name)

    def _stream_gone(self, key: Key, stream: Stream) -> None:
        now = self.new.pipeline.streams.get(stream.name)
        why = GONE
        if now is not None:
            why = stream_moves(stream, now, self.old.pipeline, self.new.pipeline)[1]
        step = Step(
            Action.DELETE, Kind.STREAM, stream.name, stream.site or "", Impact.REPLACE, (why,)
        )
        self.streams[Action.DELETE, key] = self._add(step)
        self._note_outside(key, stream)

    def _note_outside(self, key: Key, stream: Stream) -> None:
        """Say what a log that goes away means for those outside who write or read it."""
        if key not in self.old.writers and key not in self.old.rejecters:
            self.notes.setdefault(WRITTEN, []).append(stream.name)
        if key not in self.old.readers:
            self.notes.setdefault(READ, []).append(f"{stream.name} at {stream.site}")
        site = self.old.pipeline.sites.get(stream.site or "")
        broker = site.broker if site is not None else None
        if broker is not None and broker.kind == BrokerKind.KAFKA and not broker.managed:
            self.notes.setdefault(THEIRS, []).append(stream.name)

    def _job(self, name: str) -> None:
        job, old = self.new.pipeline.jobs[name], self.old.pipeline.jobs.get(name)
        if old is None:
            step = Step(
                Action.CREATE, Kind.JOB, name, job.site or "", None, (NEW,), joins=tuple(job.reads)
            )
            self.first[name] = self._add(step)
            return
        change = job_change(old, job, self.old, self.new, self.facts)
        if change is not None:
            step = self._changed_job(old, job, change)
            if name in self.down:  # it can't read anything to its end any more
                self.first[name] = self._add(replace(step, drains=()))
            else:
                self.first[name] = self.last[name] = self._add(step)
            self._note_direct(before=old, after=job)
            if change.impact is Impact.STATE_LOST and self._goes_on(old, job):
                self.notes.setdefault(GOES_ON, []).append(name)
        elif name in self.down:
            self.first[name] = self._add(self._start(name, "it is not running"))

    def _goes_on(self, old: Job, new: Job) -> bool:
        """Whether a job with state keeps its folder, and so its state, as far as that fits."""
        if stateful(old, self.facts) is not True or state_keepers(old) != state_keepers(new):
            return False
        return same_inputs(old, new, self.old, self.new)

    def _note_direct(self, before: Job, after: Job) -> None:
        """Say which streams nobody keeps while their reader is away."""
        for key, name in self.new.reads(after).items():
            noted = self.notes.setdefault(DIRECT, [])
            if not self._is_log(key) and key in self.old.reads(before) and name not in noted:
                noted.append(name)

    def _changed_job(self, old: Job, new: Job, change: JobChange) -> Step:
        before, after = self.old.reads(old), self.new.reads(new)
        logs = [key for key in before.keys() & after.keys() if self._is_log(key)]
        kept = keeps(
            change,
            inputs_stay=bool(logs),
            has_state=stateful(old, self.facts),
        )
        return Step(
            change.action,
            Kind.JOB,
            new.name,
            new.site or "",
            change.impact,
            change.reasons,
            kept,
            drains=tuple(before[key] for key in before if key not in after),
            joins=tuple(after[key] for key in after if key not in before),
        )

    def _is_log(self, key: Key) -> bool:
        """Whether a stream is kept, so that there are positions in it."""
        return bool(key[0] != Transport.ZMQ)

    def _job_gone(self, job: Job) -> Step:
        lost = Impact.REPLACE if stateful(job, self.facts) is False else Impact.STATE_LOST
        return Step(
            Action.DELETE,
            Kind.JOB,
            job.name,
            job.site or "",
            lost,
            (GONE,),
            drains=() if job.name in self.down else tuple(job.reads),
        )

    def _start(self, name: str, why: str) -> Step:
        job = self.new.pipeline.jobs[name]
        held: tuple[str, ...] = ("state",) if stateful(job, self.facts) is not False else ()
        if any(self._is_log(key) for key in self.new.reads(job)):
            held += ("offsets",)
        return Step(
            Action.START,
            Kind.JOB,
            name,
            job.site or "",
            Impact.RESTART,
            (Reason(why, Impact.RESTART),),
            ("checkpoint", *held),
        )

    def _quieten(self, key: Key) -> None:
        """Stop all jobs at a stream before it is changed; its readers read it to the end first."""
        stream = self.old.streams[key]
        readers = self.old.readers.get(key, [])
        writers = (*self.old.writers.get(key, []), *self.old.rejecters.get(key, []))
        for name in dict.fromkeys((*writers, *readers)):
            reads = name in readers
            self.stop(name, f"stream {stream.name} is changed", (stream.name,) if reads else ())
            if reads and self.quiet[key] and name in self.first:
                self._reads_anew(name, stream)

    def _reads_anew(self, name: str, stream: Stream) -> None:
        """A reader of a log that is made anew has no place in it; it starts at the beginning."""
        step = self.steps[self.first[name]]
        has_state = stateful(self.old.pipeline.jobs[name], self.facts)
        impact = Impact.REPLACE if has_state is False else Impact.STATE_LOST
        reason = Reason(f"the log of {stream.name} is made anew", impact)
        job = self.old.pipeline.jobs[name]
        others = [
            key for key in self.old.reads(job) if self._is_log(key) and not self.quiet.get(key)
        ]
        self.steps[step.id] = replace(
            step,
            impact=max(impact, step.impact or impact),
            reasons=(*step.reasons, reason),
            keeps=("offsets",) if others and "offsets" in step.keeps else (),
            joins=tuple(dict.fromkeys((*step.joins, stream.name))),
        )

    def stop(self, name: str, why: str, drained: tuple[str, ...] = ()) -> None:
        """Give a job a step of its own in which it stops, and one in which it starts again."""
        if name not in self.new.pipeline.jobs or name in self.down:
            return  # it is deleted, which is its stop, or stands still already
        stop, reason = f"{Action.STOP} {Kind.JOB} {name}", Reason(why, Impact.RESTART)
        if stop not in self.steps:
            self._note_direct(self.old.pipeline.jobs[name], self.new.pipeline.jobs[name])
            again = self.steps[self.last[name]] if name in self.last else self._start(name, why)
            place = self.old.pipeline.jobs[name].site or ""
            self._add(
                Step(
                    Action.STOP,
                    Kind.JOB,
                    name,
                    place,
                    Impact.RESTART,
                    (),
                    again.keeps,
                    drains=again.drains,
                )
            )
            self.first[name] = self._add(replace(again, drains=()))
            self.last[name] = stop
        step = self.steps[stop]
        self.steps[stop] = replace(
            step,
            reasons=tuple(dict.fromkeys((*step.reasons, reason))),
            drains=tuple(dict.fromkeys((*step.drains, *drained))),
        )

    def split(self, circle: set[str]) -> None:
        """Let the jobs of a circle stop in one step and start in another: that opens it."""
        for name, step in list(self.last.items()):
            if step in circle and self.first.get(name) == step:
                self.stop(name, "the streams around it change places")


def _changed(kind: Kind, name: str, place: str, reasons: tuple[Reason, ...]) -> Step:
    impact = max(reason.impact for reason in reasons)
    return Step(Action.CHANGE, kind, name, place, impact, reasons)
