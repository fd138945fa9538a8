"""Balance of declared rates: whether streams give what their readers take, in what buffers.

Where a file says how many records jobs make and take per firing (`produces`, `consumes`), how
often they fire (`every`) or how fast a stream flows (`rate`), the firing rates must satisfy, for
each reader of each stream, sum(rate of writer * produces) = rate of reader * consumes. Rates are
linear in the rates of the sources, so they are carried through the graph as linear expressions in
exact fractions, and an input that disagrees with another is found at the job where they meet.
Nothing is guessed: a stream with a writer or reader of unknown rate sets no equation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from millrace.errors import Diagnostic, Problems, Severity
from millrace.model.graph import in_order
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.quantity import Records
from millrace.spec.expand import Items
from millrace.spec.occupancy import Channel, Firing, Network, Occupancy, run

#: The source of all rates that are given per second.
SECOND: Final = "one second"

CLOCK: Final = "its clock (every)"
DECLARED: Final = "the rate that it declares"
#: Beyond this many bits a fraction is no rate that anybody meant; nothing is said of it.
MOST_BITS: Final = 200
#: Nor of sums that are longer in all than this.
MOST_TERMS: Final = 300_000

#: A rate as a sum of multiples of sources' rates; every source's rate is above zero.
Linear = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A job at which two rates disagree: one piles records up while the other starves."""

    job: str
    piles_up: str
    starves: str
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """What the rates of a pipeline come to."""

    firings: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, int] = field(default_factory=dict)
    imbalances: tuple[Imbalance, ...] = ()
    stuck: Occupancy | None = None


def solve(pipeline: Pipeline) -> Balance:
    """Work out firings per round and buffers that suffice, or where the rates disagree."""
    if not any(port.consumes for job in pipeline.jobs.values() for port in job.inputs):
        return Balance()
    try:
        return _Solver(pipeline).solve()
    except _BeyondMeaning:
        return Balance()


class _BeyondMeaning(Exception):
    """Numbers that are too large to be rates."""


class _Solver:
    """Carries rates along the graph, in the direction of the data."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.writers = pipeline.writers()
        self.rates: dict[str, Linear] = {}
        self.replaced: dict[str, Linear] = {}
        self.imbalances: list[Imbalance] = []
        self.letters = {stream.dead_letters for stream in pipeline.streams.values()}
        self.terms = 0

    def solve(self) -> Balance:
        for job in in_order(self.pipeline):
            self.rates[job.name] = self._rate_of(job)
        self._declared()
        if self.imbalances:
            return Balance(imbalances=tuple(self.imbalances))
        network = self._network()
        if network is None or not network.channels:
            return Balance()
        occupancy = run(network)
        if occupancy.stuck:
            return Balance(stuck=occupancy)
        peaks = dict(occupancy.peaks)
        for channel in network.channels:
            if self.pipeline.jobs[channel.reader].every is not None:  # any phase, not the best one
                made = sum(made for _, made in channel.writers)
                bound = 2 * channel.taken + made - 1
                peaks[channel.stream] = max(peaks[channel.stream], bound)
        return Balance(network.firings, peaks)

    def _bounded(self, rate: dict[str, Fraction]) -> dict[str, Fraction]:
        """The rate itself, while numbers and sums stay within what means something."""
        self.terms += len(rate)
        bits = max(
            (x.numerator.bit_length() + x.denominator.bit_length() for x in rate.values()),
            default=0,
        )
        if bits > MOST_BITS or self.terms > MOST_TERMS:
            raise _BeyondMeaning
        return rate

    def _rate_of(self, job: Job) -> Linear:
        """A job's firing rate; its inputs and its clock must agree on it."""
        claims: list[tuple[str, Linear]] = []
        if job.every is not None and job.every.nanoseconds:
            claims.append((CLOCK, {SECOND: 1 / job.every.seconds}))
        for port in job.inputs:
            flow = self._flow(port.stream)
            if port.consumes is not None and flow is not None:
                claims.append((port.stream, {key: x / port.consumes for key, x in flow.items()}))
        if not claims:
            return {f"job {job.name}": Fraction(1)}
        (first, rate), *others = claims
        for name, other in others:
            self._agree(job, (first, rate), (name, other))
        return rate

    def _declared(self) -> None:
        """A stream that jobs write must flow as fast as it says."""
        for name, stream in self.pipeline.streams.items():
            if stream.rate is None or not isinstance(stream.rate.amount, Records):
                continue
            flow = self._flow(name) if self.writers[name] else None
            if flow is not None:
                said = {SECOND: stream.rate.per_second}
                self._agree(self.writers[name][0], (name, flow), (DECLARED, said))

    def _flow(self, stream: str) -> Linear | None:
        """Records that a stream gets per unit of time; None where a writer does not say."""
        writers = self.writers[stream]
        declared = self.pipeline.streams[stream].rate
        if stream in self.letters:
            return None  # it gets what is malformed too, and nobody knows how much
        if not writers:
            if declared is not None and isinstance(declared.amount, Records):
                return {SECOND: declared.per_second}
            return {f"stream {stream}": Fraction(1)}
        total: dict[str, Fraction] = {}
        for writer in writers:
            made = _made(writer, stream)
            if made is None:
                return None
            for key, x in self.rates[writer.name].items():
                total[key] = total.get(key, Fraction(0)) + x * made
        return self._bounded(total)

    def _reduced(self, rate: Linear) -> dict[str, Fraction]:
        """A rate in sources that nothing has tied to others yet."""
        total: dict[str, Fraction] = {}
        for key, x in rate.items():
            for part, y in self.replaced.get(key, {key: _ONE}).items():
                total[part] = total.get(part, Fraction(0)) + x * y
        return self._bounded({key: x for key, x in total.items() if x})

    def _tie(self, key: str, to: dict[str, Fraction]) -> bool:
        """Replace a source everywhere; False where a source would have to be below zero."""
        self.replaced[key] = to
        for other, rate in self.replaced.items():
            if key in rate:
                self.replaced[other] = self._reduced(rate)
        return all(any(x > 0 for x in rate.values()) for rate in self.replaced.values())

    def _agree(self, job: Job, one: tuple[str, Linear], two: tuple[str, Linear]) -> None:
        left, right = self._reduced(one[1]), self._reduced(two[1])
        apart = {
            key: left.get(key, Fraction(0)) - right.get(key, Fraction(0))
            for key in left.keys() | right.keys()
        }
        apart = {key: x for key, x in apart.items() if x}
        if not apart:
            return
        if all(x > 0 for x in apart.values()) or all(x < 0 for x in apart.values()):
            more, less = (one, two) if next(iter(apart.values())) > 0 else (two, one)
            self.imbalances.append(self._imbalance(job, more, less))
            return
        # a source that the others determine: sources above zero exist when the signs differ
        key = min(key for key in apart if key != SECOND)
        to = {other: -x / apart[key] for other, x in apart.items() if other != key}
        if not self._tie(key, to):
            trace = f"{one[0]} and {two[0]} agree only if some source gave nothing, or less"
            self.imbalances.append(Imbalance(job.name, one[0], two[0], (trace,)))

    def _imbalance(self, job: Job, more: tuple[str, Linear], less: tuple[str, Linear]) -> Imbalance:
        fast, slow = (sum(self._reduced(rate).values()) for rate in (more[1], less[1]))
        scale = math.lcm(Fraction(fast).denominator, Fraction(slow).denominator)
        rounds = int(slow * scale)
        takes = {port.stream: port.consumes or 1 for port in job.inputs}
        trace = []
        for name, rate in ((more[0], fast), (less[0], slow)):
            times = int(rate * scale)
            gets = (
                f"{name} gets {times * takes[name]}, enough for"
                if name in takes
                else f"{name} gives"
            )
            trace.append(f"in one round {gets} {times} firings of {job.name}")
        surplus = (int(fast * scale) - rounds) * takes.get(more[0], 1)
        if more[0] in takes:
            held = ", ".join(str(surplus * n) for n in (1, 2, 3))
            trace.append(
                f"so {job.name} fires {rounds} times, and after 1, 2, 3 rounds "
                f"{held} records wait in {more[0]}, without end"
            )
        else:
            trace.append(
                f"so {job.name} finds {less[0]} empty at {surplus} of {int(fast * scale)} firings"
            )
        return Imbalance(job.name, more[0], less[0], tuple(trace))

    def _network(self) -> Network | None:
        """The rated part of the pipeline with whole numbers of firings per round."""
        sources = {key for rate in self.rates.values() for key in self._reduced(rate)}
        amount = dict.fromkeys(sources, Fraction(1))
        rates = {
            name: sum((x * amount[key] for key, x in self._reduced(rate).items()), Fraction(0))
            for name, rate in self.rates.items()
        }
        if any(rate <= 0 for rate in rates.values()):
            return None  # several independent sources tied by a join: their ratio is not known
        channels = self._channels()
        used = {channel.reader for channel in channels}
        used |= {writer for channel in channels for writer, _ in channel.writers}
        scale = math.lcm(*(rates[name].denominator for name in used)) if used else 1
        firings = {name: int(rates[name] * scale) for name in self.pipeline.jobs if name in used}
        common = math.gcd(*firings.values()) if firings else 1
        order = [
            Firing(job.name, firings[job.name] // common)
            for job in in_order(self.pipeline)
            if job.name in used
        ]
        return Network(tuple(order), tuple(channels))

    def _channels(self) -> list[Channel]:
        found = []
        for job in self.pipeline.jobs.values():
            for port in job.inputs:
                writers = self.writers[port.stream]
                made = [(writer.name, _made(writer, port.stream)) for writer in writers]
                if port.consumes is None or not made or any(n is None for _, n in made):
                    continue
                buffer = self.pipeline.streams[port.stream].buffer
                capacity = buffer.count if isinstance(buffer, Records) else None
                known = tuple((name, n) for name, n in made if n is not None)
                found.append(Channel(port.stream, known, job.name, port.consumes, capacity))
        return found


def _made(writer: Job, stream: str) -> int | None:
    """Records that a job puts into a stream per firing, by all its ports; None if unsaid."""
    ports = [port.produces for port in writer.outputs if port.stream == stream]
    return sum(number for number in ports if number) if all(ports) else None


_ONE: Final = Fraction(1)


def _tell_bytes(pipeline: Pipeline, items: Items, problems: Problems) -> None:
    """A rate in bytes says nothing of records: warn where that leaves a gap."""
    counted = {
        port.stream for job in pipeline.jobs.values() for port in job.inputs if port.consumes
    }
    for name in sorted(counted):
        rate = pipeline.streams[name].rate
        if rate is not None and not isinstance(rate.amount, Records):
            problems.add(
                Diagnostic(
                    "bytes-not-records",
                    f"the rate of {name!r} is in bytes, so it is not part of the balance",
                    items["streams"][name].locate("rate"),
                    hint="give it in records, such as 100/s",
                    severity=Severity.WARNING,
                )
            )


def check_balance(pipeline: Pipeline, items: Items, problems: Problems) -> Balance:
    """Tell where rates disagree, or where declared buffers let nothing move any more."""
    balance = solve(pipeline)
    _tell_bytes(pipeline, items, problems)
    for found in balance.imbalances:
        declared = DECLARED in (found.piles_up, found.starves)
        starved = "" if found.starves == CLOCK else f" while {found.starves} starves"
        piled = (
            "its clock fires too often"
            if found.piles_up == CLOCK
            else f"records pile up in {found.piles_up}"
        )
        message = f"at job {found.job!r} {piled}{starved}"
        if declared:
            stream = found.starves if found.piles_up == DECLARED else found.piles_up
            more = "less" if found.piles_up == DECLARED else "more"
            message = f"the jobs that write {stream!r} make {more} than the rate it declares"
        problems.add(
            Diagnostic(
                "imbalance",
                message,
                items["jobs"][found.job].locate("to" if declared else "from"),
                found="" if declared else "; ".join(found.trace),
                hint="change `produces`, `consumes`, `every` or `rate` so that both are equal",
            )
        )
    if balance.stuck is not None:
        stuck = balance.stuck
        firings = "1 firing" if stuck.fired == 1 else f"{stuck.fired} firings"
        when = f" after {firings}" if stuck.fired else ""
        problems.add(
            Diagnostic(
                "buffer-too-small",
                f"with these buffers nothing can move{when}: {stuck.blocked}",
                items["streams"][stuck.stuck].locate("buffer"),
                found="; ".join(stuck.trace),
                hint=f"give {stuck.stuck!r} a buffer of {stuck.enough} records or more",
            )
        )
    return balance
