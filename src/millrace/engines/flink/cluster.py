"""The processes of a cluster of our own: a JobManager and a TaskManager, on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from millrace.engines.flink.settings import (
    Ports,
    cluster_settings,
    java_options,
    log_of,
    write_settings,
)
from millrace.errors import OperationFailed
from millrace.machine import Child, Java, end_session, free_ports, leashed
from millrace.machine.process import session_members, started_at

_FILE: Final = "cluster.json"
_ENTRIES: Final = {
    "jobmanager": "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
    "taskmanager": "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
}


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it is known to who did not start it."""

    pid: int
    started: float


@dataclass(slots=True)
class Cluster:
    """Its folder and its processes; not for several threads at once."""

    place: Path
    java: Java
    options: Mapping[str, str]
    ports: Ports = field(default_factory=lambda: Ports(0, 0))
    mark: str = ""
    children: dict[str, Child] = field(default_factory=dict)
    _settings: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """What both processes say."""
        return log_of(self.place)

    @property
    def url(self) -> str:
        """The address of its REST API."""
        return f"http://127.0.0.1:{self.ports.rest}"

    def runs(self, role: str) -> bool:
        """Whether the process of a role runs."""
        child = self.children.get(role)
        return child is not None and child.alive

    def launch(self) -> None:
        """Start both processes and return at once; what is left of others is ended first."""
        self.end()
        end_left(self.place)
        for folder in ("tmp", "jars"):
            shutil.rmtree(self.place / folder, ignore_errors=True)
            (self.place / folder).mkdir(parents=True)
        self.ports = Ports(*free_ports(2, (self.ports.rest, self.ports.rpc)))
        self.mark = uuid.uuid4().hex
        self._settings = cluster_settings(
            self.place, self.ports, self.mark, self.java.version, self.options
        )
        write_settings(self.place, self._settings)
        for role in _ENTRIES:
            self.start(role)

    def start(self, role: str) -> None:
        """Start the process of a role."""
        conf = self.place / "conf"
        options = java_options(role, self.place, self._settings, self.java.version)
        command = [str(self.java.program), *options, "-cp", f"{libraries()}/*", _ENTRIES[role]]
        self.children[role] = Child.start(
            leashed([*command, "--configDir", str(conf)]), self.log, environment=_environment(conf)
        )
        known = {name: asdict(_process(child.pid)) for name, child in self.children.items()}
        fresh = self.place / f"{_FILE}.new"
        fresh.write_text(json.dumps(known), encoding="utf-8")
        fresh.replace(self.place / _FILE)

    def end(self, grace: float = 0.0) -> None:
        """End both processes, the JobManager at the latest after so many seconds."""
        for role in _ENTRIES:
            child = self.children.pop(role, None)
            if child is not None:
                child.end(grace if role == "jobmanager" else 0.0)


def end_left(place: Path) -> None:
    """End what is left of a cluster whose agent was killed, and return when it is proven gone."""
    try:
        document = json.loads((place / _FILE).read_text("utf-8"))
        known = [Process(**item) for item in document.values()]
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return  # never started, or cut off by a power failure
    for process in known:
        started = started_at(process.pid)
        reused = started != 0.0 and abs(started - process.started) > 1
        if not reused and session_members(process.pid):
            end_session(process.pid)


def libraries() -> Path:
    """Return the folder of Flink's jars; raises with the way out where they are not installed."""
    spec = importlib.util.find_spec("pyflink")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        jars = Path(folder) / "lib"
        if any(jars.glob("flink-dist-*.jar")):
            return jars
    raise OperationFailed(
        "no-flink", "Flink's libraries are not installed", "pip install 'millrace[flink]'"
    )


def _process(pid: int) -> Process:
    return Process(pid, started_at(pid))


def _environment(conf: Path) -> dict[str, str]:
    """The environment without settings of other Flinks; few arenas keep Java's memory small."""
    dropped = ("FLINK_", "HADOOP_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    home = libraries().parent
    own = {
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LIB_DIR": str(home / "lib"),
        "FLINK_PLUGINS_DIR": str(home / "plugins"),
    }
    return {**kept, **own, "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2"}
