"""Spark as a plug-in: its drivers, with a site's brokers at hand (see `driver`)."""

from __future__ import annotations

from millrace.engines.spark.classes import spark_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.engines.spark.program import ProgramEngine
from millrace.machine import fetch_jars, known_java
from millrace.ports import EngineOrder

#: The program of a driver, by its module.
DRIVER = "millrace.agent.driver"


class SparkPlugin:
    """Makes drivers of Spark; see the port `EnginePlugin`."""

    def engine(self, order: EngineOrder) -> SparkEngine | ProgramEngine:
        """Return a driver, or what runs a program of the user's; see the port."""
        java = known_java(order.cache)
        jars = fetch_jars(["spark-kafka"], java, order.cache)
        master = order.master or order.address
        if order.program:
            return ProgramEngine(order.place, java, jars, master=master, options=order.options)
        return SparkEngine(
            order.place,
            java,
            jars,
            master=master,
            options=order.options,
            java_options=spark_archive(java, order.cache).options,
            program=DRIVER,
        )


PLUGIN = SparkPlugin()
