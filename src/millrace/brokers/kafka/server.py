"""A Kafka of our own: one process, its own controller, on loopback, data kept between starts."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine import Child, ClassArchive, Java, end_session, free_ports, leashed
from millrace.machine.process import started_at

HEAP = "512m"
GRACE_SECONDS = 6.0
FORMAT_SECONDS = 120.0
#: So much of its log tells why it ended, in bytes.
_LAST_WORDS = 16_384


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker keeps between starts. `cluster` proves that a listener is ours."""

    cluster: str
    port: int
    controller: int
    pid: int = 0
    started: float = 0.0


@dataclass(slots=True)
class Server:
    """The process and its folder: identity, settings, data, log."""

    place: Path
    java: Java
    jars: Path
    #: Settings by Kafka's own names beside ours, such as listeners with SASL.
    settings: Mapping[str, str]
    #: Options for Java beside ours.
    java_options: tuple[str, ...] = ()
    child: Child | None = None

    @property
    def identity(self) -> Identity | None:
        """What is known of it, if it was ever started."""
        return read_identity(self.place)

    @property
    def log(self) -> Path:
        """What the broker says."""
        return self.place / "kafka.log"

    @property
    def alive(self) -> bool:
        """Whether the process that we started runs."""
        return self.child is not None and self.child.alive

    def launch(self) -> Identity:
        """Start the process and return at once; a predecessor of an ended agent is ended first."""
        self.place.mkdir(parents=True, exist_ok=True)
        identity = self.identity
        if identity is not None and is_running(identity):
            end_session(identity.pid)
        wanted = () if identity is None else (identity.port, identity.controller)
        port, controller = free_ports(2, wanted)
        self._write_properties(port, controller)
        cluster = self._formatted_cluster()
        if cluster is None:
            cluster = _cluster_id()
            self._format(cluster)
        options = [f"-Xmx{HEAP}", *(self.java_options or self._archive)]
        command = [str(self.java.program), *options, "-XX:+UseSerialGC", *self._class_path]
        self.child = Child.start(
            leashed([*command, "kafka.Kafka", str(self._properties)]), self.log, environment=_env()
        )
        pid = self.child.pid
        return self._remember(Identity(cluster, port, controller, pid, started_at(pid)))

    def lost_port(self) -> bool:
        """Whether the last that it said is that somebody else has its port."""
        with self.log.open("rb") as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_WORDS))
            return b"Address already in use" in said.read()

    def end(self) -> None:
        """End the process; its data stays."""
        if self.child is not None:
            self.child.end(GRACE_SECONDS)
            self.child = None

    @property
    def _properties(self) -> Path:
        return self.place / "server.properties"

    @property
    def _class_path(self) -> list[str]:
        return [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            f"{self.jars}/*",
        ]

    @property
    def _archive(self) -> tuple[str, ...]:
        return kafka_archive(self.java, self.jars).options

    def _remember(self, identity: Identity) -> Identity:
        fresh = self.place / "broker.json.new"
        fresh.write_text(json.dumps(asdict(identity)), encoding="utf-8")
        fresh.replace(self.place / "broker.json")
        return identity

    def _write_properties(self, port: int, controller: int) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.place / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A killed broker is let in again only when its former session is over.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "group.initial.rebalance.delay.ms": "0",
            "num.recovery.threads.per.data.dir": "2",
            **self.settings,
        }
        text = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
        self._properties.unlink(missing_ok=True)
        self._properties.touch(0o600)  # it may hold passwords
        self._properties.write_text(text, encoding="ascii")

    def _formatted_cluster(self) -> str | None:
        """The name that the data has, if it is prepared; it outlives a lost broker.json."""
        try:
            text = (self.place / "data" / "meta.properties").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        pairs = (line.partition("=") for line in text.splitlines())
        return next((value.strip() for name, _, value in pairs if name == "cluster.id"), None)

    def _format(self, cluster: str) -> None:
        # It runs for a second.
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *self._archive]
        command = [str(self.java.program), *quick, *self._class_path, "kafka.tools.StorageTool"]
        command += ["format", "-t", cluster, "-c", str(self._properties), "--ignore-formatted"]
        child = Child.start(leashed(command), self.log, environment=_env())
        try:
            code = child.process.wait(FORMAT_SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            child.end(0)
        if code != 0:
            raise OperationFailed(
                "broker-not-formatted",
                f"Kafka could not prepare {self.place / 'data'}",
                f"see {self.log}",
            )


def kafka_archive(java: Java, jars: Path) -> ClassArchive:
    """Return the archive of a broker's classes; beside its jars."""
    return ClassArchive.of(jars.parent / "classes", java, jars)


def read_identity(place: Path) -> Identity | None:
    """Return what a folder tells of the broker that keeps its data there, if there is one."""
    try:
        return Identity(**json.loads((place / "broker.json").read_text("utf-8")))
    except (FileNotFoundError, ValueError):  # never started, or cut off by a power failure
        return None


def is_running(identity: Identity) -> bool:
    """Whether the process that was started last still runs."""
    started = started_at(identity.pid)
    return started != 0.0 and abs(started - identity.started) < 1


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)


def _env() -> dict[str, str]:
    """The environment without settings of other Kafkas; Java names files by the locale."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _escaped(value: str) -> str:
    """A value as Java's properties want it: a backslash begins an escape, letters are ASCII."""
    plain = value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
    units = plain.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
