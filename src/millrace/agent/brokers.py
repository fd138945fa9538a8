"""The broker of a site, by what the pipeline says of it; plug-ins make it."""

from __future__ import annotations

from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.machine.address import coordinator_folder
from millrace.machine.secrets import resolved
from millrace.model.pipeline import Pipeline
from millrace.model.site import Broker as Declared
from millrace.model.site import Site
from millrace.model.stream import Stream
from millrace.ports import Broker, BrokerOrder, BrokerPlugin, Log
from millrace.ports.plugins import BROKERS, installed


def site_place(folders: Folders, pipeline: str, site: str) -> Path:
    """Return the folder in which a site of a pipeline keeps its things on this machine."""
    return folders.pipeline(pipeline) / "sites" / site


def broker_of(site: Site, place: Path, cache: Path, address: str | None = None) -> Broker:
    """Return the site's broker, not started: attached where it has an address, else managed.

    With `address` it is a client of the one that is reached there, wherever that was started.
    """
    declared = _declared(site)
    options = resolved(declared.options, f"sites.{site.name}.broker.options")
    order = BrokerOrder(site.name, place, cache, address or declared.address, options)
    return plugin_of(declared.kind).broker(order)


def plugin_of(kind: str) -> BrokerPlugin:
    """Return the plug-in of a kind of broker; raises where none is installed."""
    found: BrokerPlugin = installed().load(BROKERS, kind)
    return found


def log_of(pipeline: Pipeline, stream: Stream, folders: Folders) -> Log:
    """Return the log that holds a stream, of a broker that is already up."""
    site = pipeline.sites[stream.site or next(iter(pipeline.sites))]
    declared = _declared(site)
    homes = _homes(folders, site)
    places = [site_place(home, pipeline.name, site.name) for home in homes]
    if declared.address is not None:
        return broker_of(site, places[0], folders.cache).log
    plugin = plugin_of(declared.kind)
    for place in places:
        if (address := plugin.address(place)) is not None:
            return broker_of(site, place, folders.cache, address).log
    raise OperationFailed(
        "not-running",
        f"the broker of site {site.name} does not run",
        "start the pipeline in another terminal: millrace run FILE, or millrace up and apply",
    )


def _homes(folders: Folders, site: Site) -> list[Folders]:
    """Where a site of this machine may be kept: by a run, a coordinator or an agent of its own."""
    inside = (coordinator_folder(folders), folders.state / "agents" / site.name)
    return [folders, *(Folders(place, folders.cache) for place in inside)]


def _declared(site: Site) -> Declared:
    if site.broker is None:
        raise OperationFailed(
            "no-broker", f"site {site.name} has no broker", f"write sites.{site.name}.broker: kafka"
        )
    return site.broker
