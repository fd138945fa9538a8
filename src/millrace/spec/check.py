"""What must hold between the things of a pipeline; every breach with its place and a way out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from millrace.errors import Diagnostic, Location, Problems
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key, World
from millrace.model.shape import Record, Several, Shape, Table, Text, record_of
from millrace.model.site import BrokerKind
from millrace.model.stream import WITHOUT_LOG, Schema, Stream, Transport
from millrace.spec.balance import Balance, check_balance
from millrace.spec.check_jobs import check_job
from millrace.spec.check_names import check_names
from millrace.spec.cycles import circle_of, find_cycle
from millrace.spec.expand import Item, Items


@dataclass(frozen=True, slots=True)
class Names:
    """What is declared, broken things included, so that one error does not cause others."""

    items: Items
    groups: frozenset[str]

    def of(self, section: str) -> Collection[str]:
        """Return the declared names of a section."""
        return self.groups if section == "groups" else self.items[section]


def check(
    pipeline: Pipeline, names: Names, problems: Problems, *, whole: bool = True
) -> Balance | None:
    """Tell everything that does not fit together; return what declared rates come to.

    Without all things (`whole`), or where a name leads nowhere, only what each thing says by
    itself is checked: the rest would speak of things that are not there.
    """
    before = problems.total
    check_references(pipeline, names, problems)
    whole = whole and problems.total == before
    for job in pipeline.jobs.values():
        check_job(job, pipeline, names.items["jobs"][job.name], problems)
    check_names(pipeline, names.items, problems)
    if not whole:
        return None
    _streams(pipeline, names, problems)
    _parents(pipeline, names, problems)
    _letters(pipeline, names, problems)
    _engines(pipeline, names, problems)
    _schemas(pipeline, names, problems)
    _topics(pipeline, names, problems)
    _pins(pipeline, names, problems)
    cycle = find_cycle(pipeline)
    if cycle is not None:
        _tell_cycle(cycle, names, problems)
    elif problems.total == before:
        return check_balance(pipeline, names.items, problems)
    return None


def check_references(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    """Every name of another thing must be declared."""
    for section in ("sites", "pilots", "streams", "jobs"):
        for name, thing in getattr(pipeline, section).items():
            item = names.items[section].get(name)
            for path, target, referred in references(record_of(type(thing)), thing):
                known = names.of(target)
                if referred in known or (target == "sites" and referred in pipeline.sites):
                    continue
                near = problems.nearest(referred, known)
                problems.error(
                    f"unknown-{target[:-1]}",
                    f"{section}.{name}.{path[0]}: there is no {target[:-1]} {referred!r}",
                    item.locate(*path) if item else thing.at,
                    found=referred,
                    nearest=near,
                    hint=f"did you mean {near!r}?" if near else f"declare it under `{target}:`",
                )


#: Where a name of another thing stands, the section it is of, and the name.
Reference = tuple[tuple[str | int, ...], str, str]


def references(shape: Shape, value: object) -> Iterator[Reference]:
    """Yield all names of other things in a value."""
    if isinstance(shape, Text) and shape.refers is not None and value is not None:
        yield (), shape.refers, str(value)
    for step, inner, item in _parts(shape, value):
        for path, section, name in references(inner, item):
            yield (step, *path), section, name


def _parts(shape: Shape, value: object) -> Iterator[tuple[str | int, Shape, object]]:
    """Yield what a value is made of, as far as names of other things can stand in it."""
    match shape:
        case Record() if value is not None:
            for field in shape.fields:
                if field.refers:
                    yield field.key, field.shape, getattr(value, field.attribute)
        case Several(of) if isinstance(value, tuple):
            yield from ((index, of, item) for index, item in enumerate(value))
        case Table(of) if isinstance(value, dict):
            yield from ((key, of, item) for key, item in value.items())
        case _:
            return


def _streams(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    writers, readers = pipeline.writers(), pipeline.readers()
    letters = {stream.dead_letters for stream in pipeline.streams.values()}
    for name, stream in pipeline.streams.items():
        item = names.items["streams"][name]
        if not writers[name] and not readers[name] and name not in letters:
            problems.error(
                "dangling-stream",
                f"no job reads or writes the stream {name!r}",
                item.at,
                hint="name it in a job's `from:` or `to:`, or remove it",
            )
        elif stream.site is None:
            problems.error(
                "no-site",
                f"where is the stream {name!r}? its jobs are at several sites",
                item.at,
                hint="add `site:` to the stream",
            )
        else:
            _carrier(stream, pipeline, item.locate("transport"), problems)
            _log(stream, pipeline, item, problems)
        if stream.transient and len(writers[name]) > 1:
            problems.error(
                "transient-writers",
                f"the transient stream {name!r} has several writers",
                item.locate("transient"),
                found=", ".join(job.name for job in writers[name]),
                hint="a transient stream has one writer; make it durable",
            )


def _carrier(stream: Stream, pipeline: Pipeline, at: Location, problems: Problems) -> None:
    """A stream needs a broker of its transport at its site, unless it is direct."""
    site = pipeline.sites.get(stream.site or "")
    broker = site.broker if site is not None else None
    if stream.transport == Transport.ZMQ:
        return
    if broker is None:
        problems.error(
            "no-broker",
            f"the site {stream.site!r} has no broker for the stream {stream.name!r}",
            at,
            hint="add `broker: kafka` to the site, or `transport: zmq` to the stream",
        )
    elif stream.transport is not None and broker.kind != stream.transport:
        problems.error(
            "wrong-broker",
            f"the stream {stream.name!r} is {stream.transport}, but the broker of "
            f"{stream.site!r} is {broker.kind}",
            at,
            hint="change the stream's `transport:` or the site's `broker:`",
        )


def _log(stream: Stream, pipeline: Pipeline, item: Item, problems: Problems) -> None:
    """MQTT keeps no log: what only a log can keep is refused before anything is made."""
    site = pipeline.sites.get(stream.site or "")
    if site is None or site.broker is None or site.broker.kind != BrokerKind.MQTT:
        return
    for name in stream.needs_log:
        problems.error(
            "not-with-mqtt",
            f"the stream {stream.name!r} is carried by MQTT, which keeps no log, so {name} can't "
            "be had",
            item.locate(name),
            hint=f"{WITHOUT_LOG[name]}, or carry it by kafka",
        )


def _parents(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    """A pilot can't extend itself, by however many others."""
    circle = circle_of({name: pilot.parent for name, pilot in pipeline.pilots.items()})
    if circle is not None:
        problems.error(
            "cycle",
            "these pilots extend each other in a circle: " + " -> ".join(circle[:9]),
            names.items["pilots"][circle[0]].locate("parent"),
            hint="remove one `parent:`",
        )


def _letters(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    """What is malformed must come to rest somewhere."""
    circle = circle_of({name: item.dead_letters for name, item in pipeline.streams.items()})
    if circle is not None:
        problems.error(
            "cycle",
            "dead letters go in a circle: " + " -> ".join(circle[:9]),
            names.items["streams"][circle[0]].locate("dead_letters"),
            hint="let the last one have no `dead_letters:`",
        )


def _engines(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    for site in pipeline.sites.values():
        kinds = [engine.kind for engine in site.engines]
        if len(set(kinds)) < len(kinds):
            problems.error(
                "two-engines",
                f"the site {site.name!r} has two engines of one kind",
                names.items["sites"][site.name].locate("engine"),
                found=", ".join(kinds),
                hint="make another site for the second one",
            )


def _schemas(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    """All writers of a stream must write the same columns."""
    first: dict[str, tuple[Schema, Location]] = {
        name: (stream.schema, names.items["streams"][name].locate("schema"))
        for name, stream in pipeline.streams.items()
        if stream.schema is not None
    }
    for job in pipeline.jobs.values():
        for index, port in enumerate(job.outputs):
            if port.schema is None:
                continue
            here = names.items["jobs"][job.name].locate("to", index)
            schema, place = first.setdefault(port.stream, (port.schema, here))
            if schema != port.schema:
                problems.add(
                    Diagnostic(
                        "two-schemas",
                        f"the stream {port.stream!r} is written with two schemas",
                        here,
                        found=str(dict(port.schema)),
                        expected=str(dict(schema)),
                        hint="let the job write the same columns, or another stream",
                        related=((place, "the other schema"),),
                    )
                )


def _topics(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    """Two streams must not be one topic: their records would mix."""
    world = World(pipeline)
    first: dict[Key, str] = {}
    for name in pipeline.streams:
        other = first.setdefault(world.stream_key(name), name)
        if other != name:
            problems.add(
                Diagnostic(
                    "same-topic",
                    f"the streams {other!r} and {name!r} are one topic of one broker",
                    names.items["streams"][name].at,
                    hint="give one of them another `topic:`, or use one stream for both",
                    related=((names.items["streams"][other].at, "the other one"),),
                )
            )


def _pins(pipeline: Pipeline, names: Names, problems: Problems) -> None:
    taken: dict[tuple[str | None, int], str] = {}
    for job in pipeline.jobs.values():
        for core in job.pin:
            other = taken.setdefault((job.site, core), job.name)
            if other != job.name:
                problems.add(
                    Diagnostic(
                        "core-taken",
                        f"jobs {other!r} and {job.name!r} are both pinned to core {core} of "
                        f"{job.site!r}",
                        names.items["jobs"][job.name].locate("pin"),
                        hint="pin one of them to another core",
                        related=((names.items["jobs"][other].locate("pin"), "the other pin"),),
                    )
                )


def _tell_cycle(cycle: list[str], names: Names, problems: Problems) -> None:
    jobs = [name for index, name in enumerate(cycle) if index % 2 == 0]
    shown = cycle if len(cycle) <= 21 else [*cycle[:10], "...", *cycle[-10:]]
    problems.add(
        Diagnostic(
            "cycle",
            "these jobs feed each other in a circle: " + " -> ".join(shown),
            names.items["jobs"][jobs[0]].locate("from"),
            hint="remove one of these inputs",
            related=tuple(
                (names.items["jobs"][name].at, f"job {name}")
                for name in jobs[1:6]
                if name != jobs[0]
            ),
        )
    )
