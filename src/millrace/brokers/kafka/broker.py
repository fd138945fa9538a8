"""Kafka behind the port `Broker`: managed (ours) or attached (by address)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from millrace.brokers.kafka.failures import failure
from millrace.brokers.kafka.log import KafkaLog
from millrace.brokers.kafka.server import Server, is_running, read_identity
from millrace.brokers.kafka.settings import checked, for_java
from millrace.brokers.kafka.topics import stream_status, topic_settings
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, StreamStatus

LIMIT = 30.0
UP_SECONDS = 90.0
#: Where a setting of a topic came from: given to the topic itself.
_DYNAMIC_TOPIC = 1


class AttachedKafka:
    """A Kafka that is already there, reached by its address."""

    def __init__(self, settings: Mapping[str, str], where: str = "broker") -> None:
        self._settings = checked(settings, where)
        self.log = KafkaLog(self._settings)
        self._client: AdminClient | None = None

    def start(self) -> None:
        """Try whether it answers; see the port."""
        try:
            self._admin().list_topics(timeout=LIMIT)
        except KafkaException as error:
            raise failure(error.args[0], self._settings) from error

    def stop(self) -> None:
        """Leave it alone: it is not ours."""

    def status(self) -> BrokerStatus:
        """Look at it; see the port."""
        clients = {"librdkafka": self._settings, "java": for_java(self._settings)}
        address = self._settings["bootstrap.servers"]
        try:
            streams = self._streams(5.0)
        except KafkaException:
            return BrokerStatus(up=False, address=address, clients=clients)
        return BrokerStatus(up=True, address=address, clients=clients, streams=streams)

    def ensure(self, stream: Stream) -> None:
        """Make the stream be there as declared; see the port."""
        topic, settings = stream.address, topic_settings(stream)
        factor = int(settings.pop("replication.factor", -1))
        try:
            there = self._streams(LIMIT, [topic]).get(topic)
            if there is None:
                new = NewTopic(topic, stream.partitions, factor, config=settings)
                _done(self._admin().create_topics([new], operation_timeout=LIMIT)[topic])
                self._wait_for(topic)
                return
            self._grow(stream, there.partitions)
            self._configure(topic, settings)
        except KafkaException as error:
            raise failure(error.args[0], self._settings, topic) from error

    def drop(self, stream: Stream) -> None:
        """Remove the stream; see the port."""
        try:
            _done(self._admin().delete_topics([stream.address])[stream.address])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise failure(error.args[0], self._settings, stream.address) from error

    def _grow(self, stream: Stream, partitions: int) -> None:
        if stream.partitions < partitions:
            raise OperationFailed(
                "fewer-partitions",
                f"stream {stream.name} has {partitions} partitions and can't have "
                f"{stream.partitions}: Kafka never takes partitions away",
                f"write partitions: {partitions}, or give the stream another topic",
            )
        if stream.partitions > partitions:
            more = NewPartitions(stream.address, stream.partitions)
            _done(self._admin().create_partitions([more])[stream.address])

    def _configure(self, topic: str, settings: Mapping[str, str]) -> None:
        """Give the topic these settings and take away those of its own that are not among them."""
        own = self._own_settings([topic], LIMIT)[topic]
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
            if own.get(name) != value
        ]
        entries += [
            ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
            for name in own
            if name not in settings
        ]
        if entries:
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            for future in self._admin().incremental_alter_configs([resource]).values():
                _done(future)

    def _streams(self, limit: float, only: list[str] | None = None) -> dict[str, StreamStatus]:
        listed = self._admin().list_topics(timeout=limit).topics
        names = [name for name in listed if only is None or name in only]
        names = [name for name in names if not name.startswith("__")]
        own = self._own_settings(names, limit)
        return {name: stream_status(len(listed[name].partitions), own[name]) for name in names}

    def _own_settings(self, topics: list[str], limit: float) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        answers = self._admin().describe_configs(asked, request_timeout=limit)
        return {
            resource.name: {
                name: str(entry.value)
                for name, entry in _done(future).items()
                if int(entry.source) == _DYNAMIC_TOPIC
            }
            for resource, future in answers.items()
        }

    def _wait_for(self, topic: str) -> None:
        """Return when the topic's partitions have leaders; creation answers a little before."""

        def led() -> bool:
            found = self._admin().list_topics(topic, timeout=LIMIT).topics[topic]
            return found.error is None and all(
                part.leader >= 0 for part in found.partitions.values()
            )

        _until(led, LIMIT, f"topic {topic} got no leader")

    def _admin(self) -> AdminClient:
        """The one client; its answers are lost when it goes before they come."""
        if self._client is None:
            self._client = AdminClient({**self._settings, "log_level": 2})
        return self._client


class ManagedKafka(AttachedKafka):
    """A Kafka that Millrace starts; its data, its port and its name last."""

    def __init__(
        self,
        place: Path,
        java: Java,
        jars: Path,
        *,
        settings: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self._server = Server(place, java, jars, settings or {})
        identity = self._server.identity
        port = identity.port if identity is not None else 0
        super().__init__({"bootstrap.servers": f"127.0.0.1:{port}", **(client or {})})

    @staticmethod
    def address_at(place: Path) -> str | None:
        """Return where the broker that keeps its data in a folder listens, if it runs."""
        identity = read_identity(place)
        running = identity is not None and is_running(identity)
        return f"127.0.0.1:{identity.port}" if identity is not None and running else None

    def launch(self) -> None:
        """Begin to start it and return at once, so that other things start meanwhile."""
        if not self._server.alive:
            identity = self._server.launch()
            self._settings["bootstrap.servers"] = f"127.0.0.1:{identity.port}"
            self.log = KafkaLog(self._settings)
            self._client = None

    def start(self) -> None:
        """Start it and wait until it serves; see the port."""
        self.launch()
        try:
            _until(self._serves, UP_SECONDS, f"Kafka did not start; see {self._server.log}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process; data stays."""
        self._server.end()

    def status(self) -> BrokerStatus:
        """Look at it; see the port."""
        if not self._server.alive:
            return BrokerStatus(up=False, address=self._settings["bootstrap.servers"])
        seen = super().status()
        pid = self._server.child.pid if self._server.child is not None else None
        return BrokerStatus(seen.up, seen.address, pid, seen.clients, seen.streams)

    def _serves(self) -> bool:
        """Whether the listener answers, and is ours: a stranger has another cluster id."""
        if not self._server.alive:
            raise OperationFailed(
                "broker-died",
                "Kafka ended as it started",
                f"see {self._server.log}",
                transient=True,
            )
        try:
            listed = self._admin().list_topics(timeout=2.0)
        except KafkaException:
            return False
        identity = self._server.identity
        if identity is not None and listed.cluster_id != identity.cluster:
            raise OperationFailed(
                "port-taken",
                f"another Kafka answers at {self._settings['bootstrap.servers']}",
                "end it, or remove broker.json beside the data so that another port is taken",
                transient=True,
            )
        return bool(listed.brokers)


def _done(future: Future[Any]) -> Any:
    return future.result(LIMIT)


def _until(condition: Callable[[], bool], limit: float, otherwise: str) -> None:
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise OperationFailed("too-slow", f"{otherwise} within {limit:.0f} s", transient=True)
        time.sleep(0.05)
