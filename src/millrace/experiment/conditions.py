"""What figures depend on: the machine, and the versions of what ran."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib import metadata, resources
from typing import Any

from millrace import __version__
from millrace.errors import OperationFailed
from millrace.machine import Folders, find_java

_PACKAGES = ("pyspark", "confluent-kafka", "apache-flink-libraries", "paho-mqtt", "matplotlib")


def machine() -> dict[str, Any]:
    """Return cores, memory, kernel, and how busy it is just now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "load": round(os.getloadavg()[0], 2),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of what may have a part in the figures, as far as it is here."""
    found = {"python": platform.python_version(), "millrace": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    with suppress(OperationFailed):
        found["java"] = str(find_java(Folders.of().cache).version)
    jars = (resources.files("millrace.machine") / "ivy.xml").read_text("utf-8")
    if (kafka := re.search(r'name="kafka_[0-9.]+" rev="([^"]+)"', jars)) is not None:
        found["kafka"] = kafka[1]
    return found
