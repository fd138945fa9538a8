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

from millrace.brokers.kafka.failures import (
    ANSWER_SECONDS,
    FINAL,
    Complaints,
    failure,
    metadata,
)
from millrace.brokers.kafka.log import KafkaLog
from millrace.brokers.kafka.server import Server, is_running, read_identity
from millrace.brokers.kafka.settings import checked, for_java
from millrace.brokers.kafka.topics import stream_status, topic_settings
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, Log

LIMIT = 30.0
UP_SECONDS = 90.0
STATUS_SECONDS = 5.0
#: Where a setting of a topic came from: given to the topic itself.
_DYNAMIC_TOPIC = 1
#: Topics of Kafka itself.
_INTERNAL = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)


class AttachedKafka:
    """A Kafka that is already there, reached by its address."""

    def __init__(self, settings: Mapping[str, str], where: str = "broker") -> None:
        self._settings = checked(settings, where)
        self.log: Log = KafkaLog(self._settings)
        self._client: AdminClient | None = None
        self._complaints = Complaints()

    def start(self) -> None:
        """Try whether it answers; see the port."""
        try:
            self._topics()
        except KafkaException as error:
            raise failure(error.args[0], self._settings) from error

    def stop(self) -> None:
        """Leave it alone: it is not ours."""

    def clients(self) -> dict[str, dict[str, str]]:
        """Return how clients connect, by the dialect of their settings."""
        return {"librdkafka": dict(self._settings), "java": for_java(self._settings)}

    @property
    def alive(self) -> bool:
        """Whether nothing is known against it; one that is not ours may be away all the same."""
        return True

    def status(self) -> BrokerStatus:
        """Look at it; see the port."""
        clients = self.clients()
        address = self._settings["bootstrap.servers"]
        try:
            partitions = self._topics(STATUS_SECONDS)
        except KafkaException:
            return BrokerStatus(up=False, address=address, clients=clients)
        try:
            own = self._own_settings(list(partitions), STATUS_SECONDS)
        except KafkaException:  # it is up, and does not let us see them
            own = {}
        streams = {
            name: stream_status(count, own.get(name, {})) for name, count in partitions.items()
        }
        return BrokerStatus(up=True, address=address, clients=clients, streams=streams)

    def ensure(self, stream: Stream) -> None:
        """Make the stream be there as declared; see the port."""
        topic, settings = stream.address, topic_settings(stream)
        factor = int(settings.pop("replication.factor", -1))
        try:
            there = self._topics().get(topic)
            if there is None and not self._create(stream, factor, settings):
                self._wait_for(topic, 1)
                there = self._topics()[topic]
            if there is not None:
                _refuse_fewer(stream, there)
                self._configure(topic, settings)
                self._grow(stream, there)
            if there != stream.partitions:
                self._wait_for(topic, stream.partitions)
        except KafkaException as error:
            raise failure(error.args[0], self._settings, topic) from error

    def drop(self, stream: Stream) -> None:
        """Remove the stream; see the port."""
        topic = stream.address
        try:
            _done(self._admin().delete_topics([topic])[topic])
            _until(lambda: topic not in self._topics(), LIMIT, f"topic {topic} did not go")
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise failure(error.args[0], self._settings, topic) from error

    def _create(self, stream: Stream, factor: int, settings: Mapping[str, str]) -> bool:
        """Create the topic; False if somebody else just did."""
        new = NewTopic(stream.address, stream.partitions, factor, config=dict(settings))
        answers = self._admin().create_topics([new], operation_timeout=LIMIT)
        try:
            _done(answers[stream.address])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def _grow(self, stream: Stream, partitions: int) -> None:
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
            _until(
                lambda: self._own_settings([topic], LIMIT)[topic] == settings,
                LIMIT,
                f"the settings of topic {topic} did not change",
            )

    def _topics(self, limit: float = ANSWER_SECONDS) -> dict[str, int]:
        """The topics that are not Kafka's own, and how many partitions each has."""
        listed = metadata(self._admin(), self._complaints, limit=limit).topics
        return {
            name: len(topic.partitions) for name, topic in listed.items() if name not in _INTERNAL
        }

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

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Return when every partition answers; creation does a little before.

        A fresh client asks: the one that is kept remembers for long what it knew before.
        """

        def answers() -> bool:
            try:
                return len(self.log.ends(topic)) >= partitions
            except OperationFailed as error:
                if error.code not in {"no-leader", "no-stream"}:
                    raise
                return False

        _until(answers, LIMIT, f"topic {topic} got no leader")

    def _admin(self) -> AdminClient:
        """The one client; its answers are lost when it goes before they come."""
        if self._client is None:
            given: dict[str, Any] = {"log_level": 2, "error_cb": self._complaints}
            self._client = AdminClient({**self._settings, **given})
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
        where: str = "broker",
    ) -> None:
        self._server = Server(place, java, jars, settings or {})
        identity = self._server.identity
        port = identity.port if identity is not None else 0
        super().__init__({"bootstrap.servers": f"127.0.0.1:{port}", **(client or {})}, where)

    @staticmethod
    def address_at(place: Path) -> str | None:
        """Return where the broker that keeps its data in a folder listens, if it runs."""
        identity = read_identity(place)
        running = identity is not None and is_running(identity)
        return f"127.0.0.1:{identity.port}" if identity is not None and running else None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._server.alive

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return self._server.child.pid if self._server.child is not None else None

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
        return BrokerStatus(seen.up, seen.address, self.pid, seen.clients, seen.streams)

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
            listed = metadata(self._admin(), self._complaints, limit=2.0)
        except KafkaException as error:
            if error.args[0].code() in FINAL:
                raise failure(error.args[0], self._settings) from error
            return False
        identity = self._server.identity
        if identity is not None and listed.cluster_id != identity.cluster:
            raise OperationFailed(
                "port-taken",
                f"another Kafka answers at {self._settings['bootstrap.servers']}",
                "try again: another port is taken then",
                transient=True,
            )
        return bool(listed.brokers)


def _refuse_fewer(stream: Stream, partitions: int) -> None:
    if stream.partitions < partitions:
        raise OperationFailed(
            "fewer-partitions",
            f"stream {stream.name} has {partitions} partitions and can't have "
            f"{stream.partitions}: Kafka never takes partitions away",
            f"write partitions: {partitions}, or give the stream another topic",
        )


def _done(future: Future[Any]) -> Any:
    try:
        return future.result(LIMIT)
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error


def _until(condition: Callable[[], bool], limit: float, otherwise: str) -> None:
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise OperationFailed("too-slow", f"{otherwise} within {limit:.0f} s", transient=True)
        time.sleep(0.05)
