"""One round of firings, played through: how full each stream gets.

The job furthest down the graph that can fire does, so that buffers stay small. With declared
capacities a job also needs room for what it makes. Where each stream has one writer, one order of
firings that gets through a round shows that none can get stuck, and one that does that all can;
several writers of one bounded stream take that certainty away, and then nothing is said.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: Rounds of more firings, or of more port uses, are bounded by arithmetic instead of played.
MOST_FIRINGS: Final = 200_000
MOST_USES: Final = 1_000_000
TRACE: Final = 6


@dataclass(frozen=True, slots=True)
class Firing:
    """How often a job fires in a round."""

    job: str
    times: int


@dataclass(frozen=True, slots=True)
class Channel:
    """A stream as one reader sees it."""

    stream: str
    writers: tuple[tuple[str, int], ...]
    reader: str
    taken: int
    capacity: int | None


@dataclass(frozen=True, slots=True)
class Network:
    """Jobs in the order of the graph, and the channels between them."""

    order: tuple[Firing, ...]
    channels: tuple[Channel, ...]

    @property
    def firings(self) -> dict[str, int]:
        """Return how often each job fires in a round."""
        return {firing.job: firing.times for firing in self.order}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The greatest number of records in each stream; or where it got stuck, and how."""

    peaks: Mapping[str, int] = field(default_factory=dict)
    fired: int = 0
    stuck: str = ""
    blocked: str = ""
    enough: int = 0
    trace: tuple[str, ...] = ()


def run(network: Network) -> Occupancy:
    """Play one round, or bound it where it is too long to play."""
    times = network.firings
    uses = sum(
        times[channel.reader] * (len(channel.writers) if channel.capacity is not None else 1)
        + sum(times[name] for name, _ in channel.writers)
        for channel in network.channels
    )
    if sum(times.values()) > MOST_FIRINGS or uses > MOST_USES:
        return _bounded(network)
    occupancy = _Round(network).play()
    if occupancy.stuck and any(
        channel.capacity is not None and len(channel.writers) > 1 for channel in network.channels
    ):
        return Occupancy()  # another order of the writers might get through: nothing is known
    return occupancy


def _bounded(network: Network) -> Occupancy:
    """All that a round brings is enough for any order of firings; less is known to be too little.

    Between the two, a declared capacity is neither proven nor refuted, and nothing is said.
    """
    times = network.firings
    peaks: dict[str, int] = {}
    unknown: set[str] = set()
    for channel in network.channels:
        brought = sum(times[name] * made for name, made in channel.writers)
        peaks[channel.stream] = max(peaks.get(channel.stream, 0), brought)
        if channel.capacity is None or channel.capacity >= brought:
            continue
        made = channel.writers[0][1]
        least = made + channel.taken - math.gcd(made, channel.taken)
        if channel.capacity < least and len(channel.writers) == 1:
            blocked = f"{channel.stream} must hold {least} at times, and holds {channel.capacity}"
            return Occupancy(stuck=channel.stream, blocked=blocked, enough=brought)
        unknown.add(channel.stream)
    return Occupancy({name: peak for name, peak in peaks.items() if name not in unknown})


class _Round:
    """The state of one round of firings."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rank = {firing.job: index for index, firing in enumerate(network.order)}
        self.left = [firing.times for firing in network.order]
        self.held = [0] * len(network.channels)
        self.reads: list[list[int]] = [[] for _ in network.order]
        self.writes: list[list[tuple[int, int]]] = [[] for _ in network.order]
        for number, channel in enumerate(network.channels):
            self.reads[self.rank[channel.reader]].append(number)
            for writer, made in channel.writers:
                self.writes[self.rank[writer]].append((number, made))
        self.peaks: dict[str, int] = {channel.stream: 0 for channel in network.channels}
        self.recent: deque[tuple[int, int, tuple[tuple[int, int], ...]]] = deque(maxlen=TRACE)
        self.fired = 0

    def play(self) -> Occupancy:
        ready = [-rank for rank in range(len(self.left))]
        heapq.heapify(ready)
        queued = set(ready)
        while ready:
            rank = -heapq.heappop(ready)
            queued.discard(-rank)
            if not self._can(rank):
                continue
            self._fire(rank)
            for again in self._touched(rank):
                if -again not in queued:
                    queued.add(-again)
                    heapq.heappush(ready, -again)
        if any(self.left):
            return self._stuck()
        return Occupancy(self.peaks, self.fired)

    def _can(self, rank: int) -> bool:
        channels = self.network.channels
        if not self.left[rank]:
            return False
        if any(self.held[number] < channels[number].taken for number in self.reads[rank]):
            return False
        return all(self._room(number) >= made for number, made in self.writes[rank])

    def _room(self, number: int) -> float:
        capacity = self.network.channels[number].capacity
        return float("inf") if capacity is None else capacity - self.held[number]

    def _fire(self, rank: int) -> None:
        self.left[rank] -= 1
        self.fired += 1
        for number in self.reads[rank]:
            self.held[number] -= self.network.channels[number].taken
        for number, made in self.writes[rank]:
            self.held[number] += made
            stream = self.network.channels[number].stream
            self.peaks[stream] = max(self.peaks[stream], self.held[number])
        touched = dict.fromkeys([*self.reads[rank], *(number for number, _ in self.writes[rank])])
        held = tuple((number, self.held[number]) for number in touched)
        self.recent.append((self.fired, rank, held))

    def _trace(self) -> tuple[str, ...]:
        """The last firings, in words."""
        channels, order = self.network.channels, self.network.order
        return tuple(
            f"{fired}. {order[rank].job} fires: "
            + ", ".join(f"{channels[number].stream} holds {held}" for number, held in fill)
            for fired, rank, fill in self.recent
        )

    def _touched(self, rank: int) -> set[int]:
        """Jobs that may fire now: itself, its readers, and writers that found no room."""
        again = {rank}
        again.update(
            self.rank[self.network.channels[number].reader] for number, _ in self.writes[rank]
        )
        for number in self.reads[rank]:
            channel = self.network.channels[number]
            if channel.capacity is not None:
                again.update(self.rank[name] for name, _ in channel.writers)
        return again

    def _stuck(self) -> Occupancy:
        """Say which buffer is too small, and how much would do."""
        for rank in reversed(range(len(self.left))):
            for number, made in self.writes[rank]:
                if self.left[rank] and self._room(number) < made:
                    channel = self.network.channels[number]
                    blocked = (
                        f"{self.network.order[rank].job} needs room for {made} in "
                        f"{channel.stream}, which holds {self.held[number]} of "
                        f"{channel.capacity}"
                    )
                    return Occupancy(
                        self.peaks,
                        self.fired,
                        channel.stream,
                        blocked,
                        self._enough(channel.stream),
                        self._trace(),
                    )
        return Occupancy(self.peaks, self.fired)  # pragma: no cover - balanced rates run through

    def _enough(self, stream: str) -> int:
        free = tuple(replace(channel, capacity=None) for channel in self.network.channels)
        return _Round(Network(self.network.order, free)).play().peaks[stream]
