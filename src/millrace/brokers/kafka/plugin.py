"""Kafka as a plug-in: see the port `BrokerPlugin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.brokers.kafka.broker import AttachedKafka, ManagedKafka
from millrace.brokers.kafka.log import KafkaLog
from millrace.brokers.kafka.made import MadeTopics
from millrace.machine import fetch_jars, known_java
from millrace.ports import BrokerOrder, Log, Reception

#: Its folder in that of a site.
_FOLDER = "kafka"


class KafkaPlugin:
    """Makes a site's Kafka."""

    keeps = True

    def broker(self, order: BrokerOrder) -> AttachedKafka:
        """Return a Kafka, attached where it has an address, else managed; see the port."""
        if order.address is not None:
            made = MadeTopics(order.place / "kafka-topics")
            return AttachedKafka(_client(order.address, order.options), order.where, made)
        java = known_java(order.cache)
        (jars,) = fetch_jars([_FOLDER], java, order.cache)
        client = dict(order.options)
        return ManagedKafka(order.place / _FOLDER, java, jars, client=client, where=order.where)

    def log(self, settings: Mapping[str, str]) -> Log:
        """Return the log that is reached by settings; see the port."""
        return KafkaLog(dict(settings))

    def address(self, place: Path) -> str | None:
        """Return where a managed one is reached; see the port."""
        return ManagedKafka.address_at(place / _FOLDER)

    def receiver(self, reception: Reception) -> Sequence[str]:
        """Never asked: its log is read; see the port."""
        raise NotImplementedError(reception)


def _client(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """An address may be written as host:port or with a scheme."""
    return {"bootstrap.servers": address.rpartition("://")[2].rstrip("/"), **options}


PLUGIN = KafkaPlugin()
