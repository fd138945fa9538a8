"""What this machine offers: a Java, jars, processes that surely end, free ports, folders."""

from millrace.machine.classes import ClassArchive
from millrace.machine.folders import Folders
from millrace.machine.jars import fetch_jars, spark_jars
from millrace.machine.java import Java, find_java, known_java
from millrace.machine.ports import free_ports
from millrace.machine.process import Child, end_session, leashed

__all__ = [
    "Child",
    "ClassArchive",
    "Folders",
    "Java",
    "end_session",
    "fetch_jars",
    "find_java",
    "free_ports",
    "known_java",
    "leashed",
    "spark_jars",
]
