"""SpecK's compositions: a list of jobs, each with its engine, its brokers and its topics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Final

from millrace.errors import Diagnostic, ExportError, Problems
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Site
from millrace.model.stream import Stream
from millrace.spec.foreign import known_fields, unique_names, unsaid
from millrace.spec.node import Node

FIELDS: Final = (
    "job_name",
    "entry_class",
    "job_path",
    "spe_address",
    "source_broker",
    "sink_broker",
    "source_topic",
    "sink_topic",
)
#: The format has no place for a pipeline's name.
NAME: Final = "speck"

_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+]*)://(\[[0-9a-fA-F:]+\]|[^/:\s\[\]]+):(\d{1,5})/?")
_ENGINES: Final = {"http": "flink", "https": "flink", "spark": "spark"}
_BROKERS: Final = {"tcp": "mqtt", "mqtt": "mqtt", "ssl": "mqtt", "mqtts": "mqtt", "kafka": "kafka"}


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """An engine's or a broker's address, in its parts."""

    host: str
    port: int
    kind: str
    text: str


def is_speck(node: Node) -> bool:
    """Whether a document is a composition of SpecK."""
    jobs = node.map.get("jobs")
    if jobs is None or not isinstance(jobs.value, list):
        return False
    return not jobs.value or any("job_name" in job.map for job in jobs.value)


def native_of_speck(node: Node, problems: Problems) -> Node | None:
    """Translate a composition to the native document, places kept."""
    top = known_fields(node, "a composition of SpecK", ("jobs",), problems, ("jobs",))
    if top is None or "jobs" not in top:
        return None
    if not isinstance(top["jobs"].value, list):
        problems.error(
            "wrong-type",
            "the jobs of SpecK must be a list",
            top["jobs"].at,
            found=top["jobs"].describe(),
            hint="begin each job with `- job_name:`",
        )
        return None
    before = problems.total
    jobs = [job for item in top["jobs"].value if (job := _read(item, problems)) is not None]
    _unique(jobs, problems)
    return None if problems.total > before else _Translation(jobs).native(node)


@dataclass(frozen=True, slots=True)
class _SpeckJob:
    node: Node
    texts: dict[str, str]
    engine: Address
    source: Address
    sink: Address


def _unique(jobs: list[_SpeckJob], problems: Problems) -> None:
    first: dict[str, Node] = {}
    for job in jobs:
        named = job.node.map["job_name"]
        other = first.setdefault(job.texts["job_name"], named)
        if other is not named:
            problems.add(
                Diagnostic(
                    "declared-twice",
                    f"two jobs are called {named.value!r}",
                    named.at,
                    hint="job_name must be unique",
                    related=((other.at, "the first one"),),
                )
            )


def _read(node: Node, problems: Problems) -> _SpeckJob | None:
    fields = known_fields(node, "a job of SpecK", FIELDS, problems, FIELDS)
    if fields is None:
        return None
    texts = {}
    for key, value in fields.items():
        if isinstance(value.value, str) and value.value:
            texts[key] = value.value
        else:
            problems.error(
                "wrong-type",
                f"{key} must be a text",
                value.at,
                found=value.describe(),
                hint="put it in quotes",
            )
    addresses = [
        _address(fields[key], texts[key], kinds, problems)
        for key, kinds in (
            ("spe_address", _ENGINES),
            ("source_broker", _BROKERS),
            ("sink_broker", _BROKERS),
        )
        if key in texts
    ]
    known = [address for address in addresses if address is not None]
    if len(known) < 3 or len(texts) < len(FIELDS):
        return None
    return _SpeckJob(node, texts, *known)


def _address(node: Node, text: str, kinds: dict[str, str], problems: Problems) -> Address | None:
    match = _ADDRESS.fullmatch(text)
    if match is None or match[1] not in kinds:
        schemes = ", ".join(f"{scheme}://" for scheme in kinds)
        problems.error(
            "bad-address",
            f"{text!r} is not an address",
            node.at,
            expected=f"scheme://host:port with one of {schemes}",
            hint="for example "
            + ("http://10.0.0.7:8081/" if "http" in kinds else "tcp://10.0.0.7:1883"),
        )
        return None
    return Address(match[2].strip("[]"), int(match[3]), kinds[match[1]], text)


class _Translation:
    """Names sites by host and streams by topic, whatever the order of the jobs."""

    def __init__(self, jobs: list[_SpeckJob]) -> None:
        self.jobs = jobs
        engines: dict[tuple[str, int], set[Address]] = defaultdict(set)
        brokers: dict[tuple[str, int], set[Address]] = defaultdict(set)
        for job in jobs:
            engines[job.engine.host, job.engine.port].add(job.engine)
            for broker in (job.source, job.sink):
                brokers[broker.host, broker.port].add(broker)
        self.engines = {place: min(found) for place, found in engines.items()}
        self.brokers = {place: min(found) for place, found in brokers.items()}
        topics: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for job in jobs:
            topics[job.texts["source_topic"]].add((job.source.host, job.source.port))
            topics[job.texts["sink_topic"]].add((job.sink.host, job.sink.port))
        self.topics = topics
        self.sites = self._site_names()
        self.streams = self._stream_names()

    def _site_names(self) -> dict[tuple[str, int], str]:
        """The host, or host and port where a host has several engines or brokers."""
        crowded = {
            host
            for places in (self.engines, self.brokers)
            for host, count in Counter(host for host, _ in places).items()
            if count > 1
        }
        wanted = {
            place: f"{place[0]}-{place[1]}" if place[0] in crowded else place[0]
            for place in sorted({*self.engines, *self.brokers})
        }
        return unique_names(wanted, one_for_equal=True)

    def _stream_names(self) -> dict[tuple[str, str, int], str]:
        """The topic, and the site where several brokers have a topic of that name."""
        wanted = {
            (topic, *place): f"{topic}@{self.sites[place]}" if len(places) > 1 else topic
            for topic, places in sorted(self.topics.items())
            for place in sorted(places)
        }
        return unique_names(wanted)

    def site(self, address: Address) -> str:
        return self.sites[address.host, address.port]

    def stream(self, topic: str, broker: Address) -> str:
        return self.streams[topic, broker.host, broker.port]

    def native(self, node: Node) -> Node:
        sites: dict[str, Any] = {}
        for address in self.engines.values():
            sites.setdefault(self.site(address), {})["engine"] = {
                "kind": address.kind,
                "address": address.text,
            }
        for address in self.brokers.values():
            sites.setdefault(self.site(address), {"engine": []})["broker"] = {
                "kind": address.kind,
                "address": address.text,
            }
        streams: dict[str, Any] = {}
        jobs: dict[str, Any] = {}
        places: dict[str, tuple[int, int]] = {}
        for job in self.jobs:
            name = job.texts["job_name"]
            source = self._stream(streams, job, "source_topic", job.source)
            sink = self._stream(streams, job, "sink_topic", job.sink)
            field = job.node.map["job_name"]
            places[name] = (field.line, field.column)
            jobs[name] = job.node.like(
                {
                    "site": job.node.map["spe_address"].like(self.site(job.engine)),
                    "engine": job.engine.kind,
                    "from": job.node.map["source_topic"].like(source),
                    "to": job.node.map["sink_topic"].like(sink),
                    "jar": {"path": job.node.map["job_path"], "entry": job.node.map["entry_class"]},
                }
            )
        native = node.like({"pipeline": NAME, "sites": sites, "streams": streams})
        native.map["jobs"] = Node(jobs, node.file, node.line, node.column, places)
        return native

    def _stream(self, streams: dict[str, Any], job: _SpeckJob, key: str, broker: Address) -> str:
        topic = job.texts[key]
        name = self.stream(topic, broker)
        fields = {"site": self.site(broker), "format": "raw"}
        if name != topic:
            fields["topic"] = topic
        streams[name] = job.node.map[key].like(fields)
        return name


def speck_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return a pipeline as a composition of SpecK; ExportError says what it can't hold."""
    told: list[Diagnostic] = []
    if pipeline.description:
        told.append(Diagnostic("not-sayable", "SpecK can't say a pipeline's description"))
    told += [
        Diagnostic("not-sayable", f"SpecK can't say the pilot {name!r}") for name in pipeline.pilots
    ]
    for site in pipeline.sites.values():
        told += unsaid(site, f"site {site.name!r}", {"engine": None, "broker": None}, "SpecK")
        told += _unsaid_parts(site)
    for stream in pipeline.streams.values():
        said = {"site": None, "transport": None, "topic": None, "format": "raw"}
        told += unsaid(stream, f"stream {stream.name!r}", said, "SpecK")
        if stream.format.value != "raw":
            told.append(
                Diagnostic(
                    "not-sayable",
                    f"SpecK knows no formats: stream {stream.name!r} is {stream.format}",
                    stream.at,
                    hint="set `format: raw`",
                )
            )
    used = {thing.site for thing in pipeline.streams.values()}
    used |= {job.site for job in pipeline.jobs.values()}
    told += [
        Diagnostic("not-sayable", f"SpecK can't say the site {name!r}, which no job uses", site.at)
        for name, site in pipeline.sites.items()
        if name not in used
    ]
    told += _unused_parts(pipeline)
    jobs = [_speck_job(job, pipeline, told) for job in pipeline.jobs.values()]
    if told:
        raise ExportError(list(dict.fromkeys(told)))
    return {"jobs": jobs}


def _unused_parts(pipeline: Pipeline) -> list[Diagnostic]:
    """Engines and brokers are only said by the jobs that use them."""
    engines = {(job.site, job.needs) for job in pipeline.jobs.values()}
    brokers = {stream.site for stream in pipeline.streams.values()}
    return [
        Diagnostic("not-sayable", f"SpecK can't say {what} of site {name!r}, which no job uses", at)
        for name, site in pipeline.sites.items()
        for what, unused, at in (
            *(
                (f"the engine {e.kind}", (name, e.kind) not in engines, site.at)
                for e in site.engines
            ),
            ("the broker", site.broker is not None and name not in brokers, site.at),
        )
        if unused
    ]


def _unsaid_parts(site: Site) -> list[Diagnostic]:
    told = []
    parts = [("an engine", engine) for engine in site.engines] if site.engines else []
    for what, part in [*parts, *([("a broker", site.broker)] if site.broker else [])]:
        told += unsaid(
            part, f"{what} of site {site.name!r}", {"kind": None, "address": None}, "SpecK"
        )
    return told


def _speck_job(job: Job, pipeline: Pipeline, told: list[Diagnostic]) -> dict[str, str]:
    what = f"job {job.name!r}"
    said = {"site": None, "engine": None, "from": None, "to": None, "jar": None}
    told += unsaid(job, what, said, "SpecK")

    def tell(message: str, hint: str) -> None:
        told.append(Diagnostic("not-sayable", f"{what}: {message}", job.at, hint=hint))

    if job.jar is None:
        tell(f"SpecK's jobs are jars, not {job.kind}", "export as native")
    elif job.jar.entry is None or job.jar.arguments:
        tell("SpecK's jars have an entry class and no arguments", "set `entry:`")
    if len(job.inputs) != 1 or len(job.outputs) != 1:
        tell("SpecK's jobs have one source and one sink", "split the job, or export as native")
        return {}
    source, sink = pipeline.streams[job.reads[0]], pipeline.streams[job.writes[0]]
    for port in (*job.inputs, *job.outputs):
        told += unsaid(port, f"a port of {what}", {"stream": None}, "SpecK")
    addresses = [
        _engine_address(job, pipeline),
        _broker_address(source, pipeline),
        _broker_address(sink, pipeline),
    ]
    if not all(addresses):
        tell(
            "SpecK needs the address of its engine and of both brokers",
            "attach them: `engine: {kind: flink, address: ...}`, `broker: {address: ...}`",
        )
    spe, source_broker, sink_broker = (address or "" for address in addresses)
    jar = job.jar
    return {
        "job_name": job.name,
        "spe_address": spe,
        "source_broker": source_broker,
        "sink_broker": sink_broker,
        "source_topic": source.address,
        "sink_topic": sink.address,
        "entry_class": (jar.entry if jar else None) or "",
        "job_path": jar.path if jar else "",
    }


def _engine_address(job: Job, pipeline: Pipeline) -> str | None:
    engine = pipeline.sites[job.site or ""].engine(job.needs) if job.needs else None
    return engine.address if engine is not None else None


def _broker_address(stream: Stream, pipeline: Pipeline) -> str | None:
    site = pipeline.sites.get(stream.site or "")
    return site.broker.address if site is not None and site.broker is not None else None
