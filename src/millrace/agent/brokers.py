"""The broker of a site, by what the pipeline says of it."""

from __future__ import annotations

from pathlib import Path

from millrace.brokers.kafka import AttachedKafka, MadeTopics, ManagedKafka
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java
from millrace.machine.address import coordinator_folder
from millrace.machine.secrets import resolved
from millrace.model.pipeline import Pipeline
from millrace.model.site import Broker, BrokerKind, Site
from millrace.model.stream import Stream
from millrace.ports import Log


def site_place(folders: Folders, pipeline: str, site: str) -> Path:
    """Return the folder in which a site of a pipeline keeps its things on this machine."""
    return folders.pipeline(pipeline) / "sites" / site


def broker_of(site: Site, place: Path, java: Java, jars: Path) -> AttachedKafka:
    """Return the site's broker, not started: attached where it has an address, else managed."""
    broker = _kafka_of(site)
    where = f"sites.{site.name}.broker.options"
    options = resolved(broker.options, where)
    if broker.address is not None:
        made = MadeTopics(place / "kafka-topics")
        return AttachedKafka(_client(broker.address, options), where, made)
    return ManagedKafka(place / "kafka", java, jars, client=options, where=where)


def attached(site: Site, address: str) -> AttachedKafka:
    """Return a site's broker as it is reached at an address, with the settings of its clients."""
    broker = _kafka_of(site)
    options = resolved(broker.options, f"sites.{site.name}.broker.options")
    return AttachedKafka(_client(address, options))


def log_of(pipeline: Pipeline, stream: Stream, folders: Folders) -> Log:
    """Return the log that holds a stream, of a broker that is already up."""
    site = pipeline.sites[stream.site or next(iter(pipeline.sites))]
    broker = _kafka_of(site)
    options = resolved(broker.options, f"sites.{site.name}.broker.options")
    if broker.address is not None:
        return AttachedKafka(_client(broker.address, options)).log
    places = [site_place(it, pipeline.name, site.name) / "kafka" for it in _homes(folders, site)]
    address = next(filter(None, map(ManagedKafka.address_at, places)), None)
    if address is None:
        raise OperationFailed(
            "not-running",
            f"the broker of site {site.name} does not run",
            "start the pipeline in another terminal: millrace run FILE, or millrace up and apply",
        )
    return AttachedKafka({"bootstrap.servers": address, **options}).log


def _homes(folders: Folders, site: Site) -> list[Folders]:
    """Where a site of this machine may be kept: by a run, a coordinator or an agent of its own."""
    inside = (coordinator_folder(folders), folders.state / "agents" / site.name)
    return [folders, *(Folders(place, folders.cache) for place in inside)]


def _kafka_of(site: Site) -> Broker:
    if site.broker is None:
        raise OperationFailed(
            "no-broker", f"site {site.name} has no broker", f"write sites.{site.name}.broker: kafka"
        )
    if site.broker.kind is not BrokerKind.KAFKA:
        raise OperationFailed(
            "not-yet", f"site {site.name}: {site.broker.kind} can't be run yet", "use kafka"
        )
    return site.broker


def _client(address: str, options: dict[str, str]) -> dict[str, str]:
    """An address may be written as host:port or with a scheme."""
    return {"bootstrap.servers": address.rpartition("://")[2].rstrip("/"), **options}
