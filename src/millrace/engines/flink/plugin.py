"""Flink as a plug-in: see the port `EnginePlugin`."""

from __future__ import annotations

from millrace.engines.flink.engine import FlinkEngine
from millrace.engines.flink.server import ManagedFlink
from millrace.machine import known_java
from millrace.ports import EngineOrder


class FlinkPlugin:
    """Makes Flinks: attached where they have an address, else managed."""

    def engine(self, order: EngineOrder) -> FlinkEngine:
        """Return a Flink, not started; see the port."""
        if order.address is not None:
            return FlinkEngine(order.address, order.options)
        return ManagedFlink(order.place, known_java(order.cache), order.options)


PLUGIN = FlinkPlugin()
