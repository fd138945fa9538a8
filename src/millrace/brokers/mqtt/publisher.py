"""Writes records to topics and returns when the broker has acknowledged them."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable

from millrace.brokers.mqtt.connection import Connection
from millrace.brokers.mqtt.failures import no_partition, too_large
from millrace.brokers.mqtt.properties import named_of, pairs_of
from millrace.brokers.mqtt.settings import ClientSettings
from millrace.brokers.mqtt.topics import LARGEST, check_written
from millrace.errors import OperationFailed
from millrace.ports import Record

#: So many messages, and bytes, are on their way at most.
WINDOW = 2_000
WINDOW_BYTES = 32_000_000
#: So many are handed to the network at once.
_BURST = 64
#: How long nothing may be acknowledged before it is given up, in seconds.
PATIENCE = 30.0
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0
_LOG = logging.getLogger(__name__)
_told: set[str] = set()


class Publisher:
    """One client that writes; connects when it is first needed, and again when that is lost.

    What the broker has not acknowledged is sent again then: of QoS 1 it may come twice.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings, f"millrace-writer-{uuid.uuid4().hex}", keep=None)
        self._open = False
        self._heard = time.monotonic()
        #: Bytes that were handed over since the last time that nothing was on its way.
        self._bytes = 0

    def write(self, topic: str, records: Iterable[Record], qos: int, *, retain: bool) -> int:
        """Write records to a topic; returns how many when all are acknowledged.

        QoS 0 is acknowledged by nobody: returning means that they were sent.
        """
        check_written(topic)
        self._heard = time.monotonic()
        if not self._open:
            self._connection.open()  # a first failure is told at once, not waited out
            self._open = True
        count = 0
        for count, record in enumerate(records, 1):
            self._publish(topic, record, qos, retain)
            if count % _BURST == 0:
                self._go_on(0.0)
            while self._is_full():
                self._go_on(0.5)
        while not self._connection.settled():
            self._go_on(0.5)
        self._bytes = 0
        return count

    def _publish(self, topic: str, record: Record, qos: int, retain: bool) -> None:
        value = record.value or b""
        if len(value) > LARGEST:
            raise too_large(self._settings, topic)
        if record.partition:
            raise no_partition(topic, record.partition)
        plain = not (record.key is not None or record.headers or record.time is not None)
        if plain and record.value is not None:
            self._connection.publish(topic, value, qos, retain=retain)
        elif self._settings.version5:
            pairs, named = pairs_of(record), named_of(record)
            self._connection.publish(topic, value, qos, retain=retain, pairs=pairs, named=named)
        else:
            _tell_once(self._settings)
            self._connection.publish(topic, value, qos, retain=retain)
        self._bytes += len(value)

    def _is_full(self) -> bool:
        connection = self._connection
        if connection.settled():
            self._bytes = 0
        much = self._bytes > WINDOW_BYTES
        return much or connection.outstanding >= min(WINDOW, connection.window)

    def _go_on(self, wait: float) -> None:
        """Send and hear for a moment; connect again if that is needed."""
        before = self._connection.outstanding, self._connection.sending
        try:
            self._connection.pump(wait)
        except OperationFailed as failure:
            if not failure.transient:
                raise
            self._come_back(failure)
        if (self._connection.outstanding, self._connection.sending) != before:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > PATIENCE:
            raise OperationFailed(
                "no-answer",
                f"the broker at {self._settings.address} acknowledged nothing for {PATIENCE:.0f} s",
                "look at the broker: is its disk full?",
                transient=True,
            )

    def _come_back(self, failure: OperationFailed) -> None:
        """Connect again; raises what was wrong when that did not work for long."""
        delay = _FIRST_DELAY
        while True:
            if time.monotonic() - self._heard > PATIENCE:
                raise failure
            self._connection.rest(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            try:
                self._connection.open()
            except OperationFailed as again:
                if not again.transient:
                    raise
                failure = again
            else:
                return

    def close(self) -> None:
        """Let go of the broker."""
        self._connection.close()


def _tell_once(settings: ClientSettings) -> None:
    if settings.address not in _told:
        _told.add(settings.address)
        _LOG.warning(
            "MQTT 3.1.1 carries values only: keys, headers and times are left out at %s; "
            "write protocol: 5 in the broker's options if it speaks that",
            settings.address,
        )
