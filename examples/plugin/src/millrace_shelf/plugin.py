"""What the entry points of this package offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.ports import Broker, BrokerOrder, Engine, EngineOrder, Log, Reception

from millrace_shelf import broker, engine
from millrace_shelf.log import ShelfLog


class ShelfPlugin:
    """Streams as files; see the port `BrokerPlugin`."""

    keeps = True

    def broker(self, order: BrokerOrder) -> Broker:
        """Return a site's shelf; see the port."""
        return broker.broker_of(order)

    def log(self, settings: Mapping[str, str]) -> Log:
        """Return the log in a folder; see the port."""
        return ShelfLog(Path(settings["address"]))

    def address(self, place: Path) -> str | None:
        """Return the folder of a managed shelf that serves; see the port."""
        root = broker.folder_of(place)
        return str(root) if broker.serves(root) else None

    def receiver(self, reception: Reception) -> Sequence[str]:
        """Never asked: records are kept, and read by positions; see the port."""
        raise NotImplementedError(reception)


class ThreadsPlugin:
    """Functions in threads; see the port `EnginePlugin`."""

    def engine(self, order: EngineOrder) -> Engine:
        """Return an engine; see the port."""
        return engine.engine_of(order)


SHELF = ShelfPlugin()
THREADS = ThreadsPlugin()
