"""What must, and what had better, come before what, so that no record is lost.

Needed:

- a stream is created, or changed while its jobs stand still, before the `first` of a job that
  uses it (or puts what is malformed there), and removed or changed after the `last` of one;
- a writer lets go of a stream (`last`) before a reader that lets go of it too, so that the reader
  can read it to its end (one that goes at once does not); these edges follow the old graph, which
  has no circle but in the middle of a change;
- a job that writes where another one leaves, which still reads what the first one wrote before,
  starts (`first`) when that one has stopped: else its new records would overtake its older ones;
- pilots before brokers before streams, and back again.

Wished, and given up where it would make a circle: readers of a new stream start before a writer
that is switched over to it, so that records don't wait; a reader that takes over starts after the
one that leaves, and begins where that one stopped. Giving a wish up costs no record: a new stream
is kept from its creation for its declared readers, and a new reader of a stream that was there
begins where that stream ended when the plan began; what the one that leaves reads after that is
read twice then. Jobs that are all new start side by side: a chain would start one by one else.
"""

from __future__ import annotations

from collections.abc import Iterator

from millrace.model.places import Key, World
from millrace.model.step import Action
from millrace.plan.draft import Draft
from millrace.plan.order import Edge


def needs(draft: Draft, circle: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """Return, for every step, the steps that must be done before it.

    Steps of a `circle` are not held back for what is read to its end: in the middle of a change
    jobs of two files may write to each other.
    """
    after: dict[str, set[str]] = {name: set() for name in draft.steps}
    flow = (*_drained(draft), *_overtaking(draft))
    held = (edge for edge in flow if not circle.issuperset(edge))
    for edges in (_streams(draft), held, _brokers(draft), _pilots(draft)):
        for before, then in edges:
            if before is not None and then is not None and before != then:
                after[then].add(before)
    return after


Maybe = tuple[str | None, str | None]


def _streams(draft: Draft) -> Iterator[Maybe]:
    for name in draft.first:
        job = draft.new.pipeline.jobs[name]
        yield draft.last.get(name), draft.first[name]
        for key in (*draft.new.reads(job), *draft.new.writes(job), *draft.new.letters(job)):
            yield draft.streams.get((Action.CREATE, key)), draft.first[name]
            if key in draft.quiet:
                yield draft.streams[Action.CHANGE, key], draft.first[name]
    for name in draft.last:
        job = draft.old.pipeline.jobs[name]
        for key in (*draft.old.reads(job), *draft.old.writes(job), *draft.old.letters(job)):
            yield draft.last[name], draft.streams.get((Action.DELETE, key))
            if key in draft.quiet:
                yield draft.last[name], draft.streams[Action.CHANGE, key]


def _drained(draft: Draft) -> Iterator[tuple[str, str]]:
    """Writers that let go of a stream come before readers that let go of it."""
    for key in draft.old.streams:
        readers = _leaving(draft, key, draft.old.readers.get(key, ()), draft.new.readers)
        if not readers:
            continue
        writers = _leaving(draft, key, draft.old.writers.get(key, ()), draft.new.writers)
        for reader in (name for name in readers if not _at_once(draft, name)):
            for writer in writers:
                yield draft.last[writer], draft.last[reader]


def _overtaking(draft: Draft) -> Iterator[tuple[str, str]]:
    """Writers that leave a stream come before those that join it and were before them."""
    for key, writers in draft.new.writers.items():
        was = draft.old.writers.get(key, [])
        leaving = [name for name in was if name not in writers and name in draft.last]
        joining = [name for name in writers if name not in was and name in draft.last]
        for one in joining if leaving else ():
            behind = _behind(draft.old, one)
            for other in leaving:
                if other in behind and one in draft.first:
                    yield draft.last[other], draft.first[one]


def _behind(world: World, job: str) -> set[str]:
    """The jobs that get what a job writes, by way of others too."""
    found: set[str] = set()
    waiting = [job]
    while waiting:
        for key in world.writes(world.pipeline.jobs[waiting.pop()]):
            fresh = [name for name in world.readers.get(key, ()) if name not in found]
            found.update(fresh)
            waiting += fresh
    return found


def _at_once(draft: Draft, job: str) -> bool:
    """Whether a job goes without reading anything to its end."""
    step = draft.steps[draft.last[job]]
    return step.action is Action.DELETE and not step.drains


def _leaving(
    draft: Draft, key: Key, users: list[str] | tuple[()], later: dict[Key, list[str]]
) -> list[str]:
    """The users of a stream that stop and don't use it again, or not as it was."""
    if key in draft.quiet:
        return [name for name in users if name in draft.last]
    stay = set(later.get(key, ()))
    return [name for name in users if name not in stay and name in draft.last]


def _brokers(draft: Draft) -> Iterator[Maybe]:
    for world, action in ((draft.new, Action.CREATE), (draft.old, Action.DELETE)):
        for key, stream in world.streams.items():
            site = world.pipeline.sites.get(stream.site or "")
            if site is None or site.broker is None:
                continue
            broker = draft.brokers.get((action, world.broker_key(site)))
            step = draft.streams.get((action, key))
            yield _turned((broker, step), action)


def _turned(edge: Maybe, action: Action) -> Maybe:
    """Things are removed in the other direction."""
    return edge if action is Action.CREATE else (edge[1], edge[0])


def _pilots(draft: Draft) -> Iterator[Maybe]:
    for world, action, steps in (
        (draft.new, Action.CREATE, draft.first),
        (draft.old, Action.DELETE, draft.last),
    ):
        for name, pilot in world.pipeline.pilots.items():
            if pilot.parent is not None:
                parent = draft.pilots.get((action, world.pilot_key(pilot.parent)))
                yield _turned((parent, draft.pilots.get((action, world.pilot_key(name)))), action)
        for site in world.pipeline.sites.values():
            if site.pilot is not None and site.broker is not None:
                broker = draft.brokers.get((action, world.broker_key(site)))
                yield _turned((_pilot_of(draft, world, site.name, action), broker), action)
        for name, step in steps.items():
            site_name = world.pipeline.jobs[name].site or ""
            yield _turned((_pilot_of(draft, world, site_name, action), step), action)


def _pilot_of(draft: Draft, world: World, site: str, action: Action) -> str | None:
    place = world.pipeline.sites.get(site)
    if place is None or place.pilot is None:
        return None
    return draft.pilots.get((action, world.pilot_key(place.pilot)))


def wishes(draft: Draft) -> list[list[Edge]]:
    """Return what had better come first: where something is taken over, then for dead letters."""
    dear: list[Edge] = []
    for key in draft.new.streams:
        readers = [name for name in draft.new.readers.get(key, ()) if name in draft.first]
        if (Action.CREATE, key) in draft.streams:
            for writer in draft.new.writers.get(key, ()):
                if writer in draft.first and writer in draft.old.pipeline.jobs:
                    first = draft.first[writer]
                    dear += [(draft.first[name], first) for name in readers if name != writer]
            continue
        was = set(draft.old.readers.get(key, ()))
        stay = set(draft.new.readers.get(key, ()))
        joining = [name for name in readers if name not in was]
        leaving = [name for name in was - stay if name in draft.last]
        dear += [
            (draft.last[other], draft.first[one])
            for one in joining
            for other in leaving
            if one != other
        ]
    return [dear, list(_letters_first(draft))]


def _letters_first(draft: Draft) -> Iterator[Edge]:
    """Jobs that reject records had better stop before those that read what was rejected.

    Only a wish: what reads rejected records may well write them back to where they came from.
    """
    for key, jobs in draft.old.rejecters.items():
        for reader in draft.old.readers.get(key, ()):
            for job in jobs:
                if job in draft.last and reader in draft.last and job != reader:
                    yield draft.last[job], draft.last[reader]
