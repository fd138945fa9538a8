"""Classes of Spark's Java side, each looked up once in a process.

A look-up goes through all of Spark's jars for every package on the way to a name, some
milliseconds each; a driver with a hundred jobs would make thousands.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

CATALYST = "org.apache.spark.sql.catalyst"
CLASSIC = "org.apache.spark.sql.classic"
#: What PySpark itself asks for, by these names, at nearly every call.
_PYSPARK = (
    "functions",
    "org.apache.spark.sql.functions",
    f"{CLASSIC}.SparkSession",
    f"{CLASSIC}.SparkSession$",
    "org.apache.spark.sql.streaming.Trigger",
    "PythonUtils",
)


def java_class(name: str) -> Any:
    """Return a class by its whole name, or by the short one that PySpark imports it under."""
    jvm: Any = SparkContext._jvm
    known = vars(jvm)
    if name not in known:
        known[name] = getattr(jvm, name)
    return known[name]


def scala_object(name: str) -> Any:
    """Return the Scala object of a name."""
    return java_member(f"{name}$", "MODULE$")


def java_member(name: str, member: str) -> Any:
    """Return what belongs to a class itself: a method without an object, or a value."""
    known = vars(java_class(name))
    if member not in known:
        known[member] = getattr(java_class(name), member)
    return known[member]


def remember_classes() -> None:
    """Look up once what PySpark would look up again and again."""
    for name in _PYSPARK:
        java_class(name)
