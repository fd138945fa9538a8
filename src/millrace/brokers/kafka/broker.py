"""Kafka behind the port `Broker`: managed (ours) or attached (by address)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from millrace.brokers.kafka.failures import (
    ANSWER_SECONDS,
    FINAL,
    NO_RIGHTS,
    Complaints,
    failure,
    metadata,
)
from millrace.brokers.kafka.log import KafkaLog
from millrace.brokers.kafka.made import MadeTopics
from millrace.brokers.kafka.server import Server, is_running, read_identity
from millrace.brokers.kafka.settings import checked, for_java
from millrace.brokers.kafka.topics import REPLICATION, stream_status, topic_settings
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, Log

LIMIT = 30.0
UP_SECONDS = 90.0
STATUS_SECONDS = 5.0
DIED = "broker-died"
LOOK_SECONDS = 1.0
#: Where a setting of a topic came from: given to the topic itself.
_DYNAMIC_TOPIC = 1
#: Topics of Kafka itself.
_INTERNAL = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)


class AttachedKafka:
    """A Kafka that is already there, reached by its address.

    With `made`, only the topics noted there are Millrace's to remove, and to take settings from.
    """

    def __init__(
        self, settings: Mapping[str, str], where: str = "broker", made: MadeTopics | None = None
    ) -> None:
        self._settings = checked(settings, where)
        self._made = made
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

    @property
    def alive(self) -> bool:
        """Whether nothing is known against it; one that is not ours may be away all the same."""
        return True

    def _clients(self) -> dict[str, dict[str, str]]:
        """How clients connect, by the dialect of their settings."""
        return {"librdkafka": dict(self._settings), "java": for_java(self._settings)}

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look at it; see the port."""
        clients = self._clients()
        address = self._settings["bootstrap.servers"]
        try:
            partitions = self._topics(STATUS_SECONDS)
        except KafkaException:
            return BrokerStatus(up=False, address=address, clients=clients)
        try:
            own = self._own_settings(list(partitions), STATUS_SECONDS) if whole else {}
        except KafkaException:  # it is up, and does not let us see them
            own = {}
        streams = {
            name: stream_status(count, own.get(name, {})) for name, count in partitions.items()
        }
        return BrokerStatus(up=True, address=address, clients=clients, streams=streams)

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make the streams be there as declared; see the port. Their records are kept for all."""
        del readers
        settings = {stream.address: topic_settings(stream) for stream in streams}
        try:
            there = self._topics()
        except KafkaException as error:
            raise failure(error.args[0], self._settings) from error
        for stream in streams:
            _refuse_fewer(stream, there.get(stream.address, 0))
        made = self._created([s for s in streams if s.address not in there], settings)
        for stream in streams:
            if stream.address not in made:
                self._changed(stream, there.get(stream.address), settings[stream.address])
        fresh = {s.address: s.partitions for s in streams if there.get(s.address) != s.partitions}
        self._wait_for(fresh)

    def drop(self, stream: Stream) -> None:
        """Remove the stream; see the port. A topic that somebody else made stays."""
        topic = stream.address
        if not self._ours(topic):
            return
        try:
            _done(self._admin().delete_topics([topic])[topic])
            _until(lambda: topic not in self._topics(), LIMIT, f"topic {topic} did not go")
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise failure(error.args[0], self._settings, topic) from error
        if self._made is not None:
            self._made.remove(topic)

    def _ours(self, topic: str) -> bool:
        return self._made is None or topic in self._made

    def _created(
        self, streams: Sequence[Stream], settings: Mapping[str, Mapping[str, str]]
    ) -> set[str]:
        """Create topics, all at once; returns those that nobody else just made."""
        if not streams:
            return set()
        new = [_new_topic(stream, settings[stream.address]) for stream in streams]
        made, failures = set(), []
        for topic, future in self._admin().create_topics(new, operation_timeout=LIMIT).items():
            try:
                _done(future)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failures.append(failure(error.args[0], self._settings, topic))
                continue
            made.add(topic)
        if self._made is not None:
            self._made.add(made)  # also where others of them can't be made
        if failures:
            raise failures[0]
        return made

    def _changed(self, stream: Stream, partitions: int | None, settings: Mapping[str, str]) -> None:
        """Give a topic that is there the stream's settings."""
        topic, wanted = stream.address, dict(settings)
        wanted.pop(REPLICATION, None)
        try:
            if partitions is None:
                self._wait_for({topic: 1})
                partitions = self._topics()[topic]
                _refuse_fewer(stream, partitions)
            self._configure(topic, wanted)
            self._grow(stream, partitions)
        except KafkaException as error:
            raise failure(error.args[0], self._settings, topic) from error

    def _grow(self, stream: Stream, partitions: int) -> None:
        if stream.partitions > partitions:
            more = NewPartitions(stream.address, stream.partitions)
            _done(self._admin().create_partitions([more])[stream.address])

    def _configure(self, topic: str, settings: Mapping[str, str]) -> None:
        """Give the topic these settings; one of ours loses those that are not among them."""
        own = self._own_settings([topic], LIMIT)[topic]
        if not self._ours(topic):
            settings = {**own, **settings}
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

    def _wait_for(self, partitions: Mapping[str, int]) -> None:
        """Return when every partition of these topics answers; creation does a little before.

        A fresh client asks each time, and not for long: a client remembers half a minute that a
        topic was not there.
        """
        pending = {(topic, part) for topic, count in partitions.items() for part in range(count)}

        def answer() -> bool:
            latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            client = self._fresh_admin()  # kept: answers are lost when it goes before they come
            asked = {TopicPartition(*place): latest for place in pending}
            answers = client.list_offsets(asked, request_timeout=LOOK_SECONDS)
            for place, future in answers.items():
                try:
                    _done(future)
                except KafkaException as error:
                    # One that was just made says all kinds of things: no leader, no such topic.
                    if error.args[0].code() in FINAL | NO_RIGHTS:
                        raise failure(error.args[0], self._settings, place.topic) from error
                else:
                    pending.discard((place.topic, place.partition))
            return not pending

        if pending:
            _until(answer, LIMIT, f"topic {min(pending)[0]} got no leader")

    def _admin(self) -> AdminClient:
        """The one client; its answers are lost when it goes before they come."""
        if self._client is None:
            self._client = self._fresh_admin()
        return self._client

    def _fresh_admin(self) -> AdminClient:
        given: dict[str, Any] = {"log_level": 2, "error_cb": self._complaints}
        return AdminClient({**self._settings, **given})


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
        java_options: tuple[str, ...] = (),
    ) -> None:
        self._server = Server(place, java, jars, settings or {}, java_options)
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
        """Start it and wait until it serves; see the port.

        A port that was free when it was chosen may be taken when Kafka comes to it: then it takes
        another one.
        """
        try:
            self._come_up()
        except OperationFailed as failure:
            if failure.code != DIED or not self._server.lost_port():
                raise
            self._come_up()

    def _come_up(self) -> None:
        self.launch()
        try:
            _until(self._serves, UP_SECONDS, f"Kafka did not start; see {self._server.log}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process; data stays."""
        self._server.end()

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look at it; see the port."""
        if not self._server.alive:
            address = self._settings["bootstrap.servers"]
            return BrokerStatus(up=False, address=address, clients=self._clients())
        seen = super().status(whole=whole)
        return BrokerStatus(seen.up, seen.address, self.pid, seen.clients, seen.streams)

    def _serves(self) -> bool:
        """Whether the listener answers, and is ours: a stranger has another cluster id."""
        if not self._server.alive:
            raise OperationFailed(
                DIED,
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


def _new_topic(stream: Stream, settings: Mapping[str, str]) -> NewTopic:
    config = dict(settings)
    factor = int(config.pop(REPLICATION, -1))
    return NewTopic(stream.address, stream.partitions, factor, config=config)


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
