"""Flink: a cluster that is already there, or one that Millrace starts; jobs are jars."""

from millrace.engines.flink.engine import FlinkEngine
from millrace.engines.flink.server import ManagedFlink

__all__ = ["FlinkEngine", "ManagedFlink"]
