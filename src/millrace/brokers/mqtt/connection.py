"""One connection to a broker of MQTT.

Whoever has a connection drives it with `pump`, from one thread; so nothing comes or is acknowledged
at a moment that the caller has not chosen.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from millrace.brokers.mqtt.client import LARGEST_WINDOW, Client
from millrace.brokers.mqtt.failures import away, no_rights, not_reached, refused, too_large
from millrace.brokers.mqtt.properties import Message
from millrace.brokers.mqtt.settings import ClientSettings
from millrace.errors import OperationFailed

#: How long a broker may take to answer, in seconds.
ANSWER_SECONDS = 10.0
_FAREWELL_SECONDS = 10.0
_TOO_LARGE = frozenset({0x95})


class Connection:
    """A client with an id. `keep`: the broker keeps its session when the connection ends.

    `keep` None keeps it only for a connection that is lost and opened again.
    """

    def __init__(self, settings: ClientSettings, client_id: str, *, keep: bool | None) -> None:
        self.settings = settings
        self.client_id = client_id
        self._keep = keep
        self._client = Client(settings, client_id, keep)
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.settimeout(0)
        self._wake_write.settimeout(0)

    def take(self) -> tuple[list[Message], list[int]]:
        """Take what came away: messages, and ids of QoS 2 that the broker lets go of."""
        return self._client.take()

    @property
    def outstanding(self) -> int:
        """How many messages the broker has not acknowledged."""
        return len(self._client.outstanding)

    @property
    def window(self) -> int:
        """How many messages may be on their way to the broker."""
        return LARGEST_WINDOW if self._client.answer is None else self._client.answer.window

    @property
    def sending(self) -> bool:
        """Whether something waits to be sent."""
        return self._client.want_write()

    def open(self) -> bool:
        """Connect, again if it was lost; returns whether the broker had a session of ours.

        What it had not acknowledged is sent again.
        """
        client, settings = self._client, self.settings
        try:
            client.begin(ANSWER_SECONDS)
        except (OSError, ValueError) as error:  # a host name that can't be one is a ValueError
            raise not_reached(settings, error) from error
        until = time.monotonic() + ANSWER_SECONDS
        while client.answer is None:
            if time.monotonic() > until:
                client.drop()
                raise away(settings, "it is silent")
            self.pump(0.5)
        if client.answer.failed:
            client.drop()
            raise refused(settings, client.answer.code, client.answer.said)
        return client.answer.session

    def pump(self, wait: float, most: int = 1_000, most_bytes: int = 16_000_000) -> None:
        """Send what waits, read what is there until it is much; wait if there is nothing.

        Raises, `transient` as a rule, where the connection is lost.
        """
        client = self._client
        if client.socket() is None:
            raise self._lost()
        self.flush()
        if client.socket() is not None and self._wait(wait):
            self._read(most, most_bytes)
        self.flush()
        client.loop_misc()
        if client.socket() is None and not (client.answer is not None and client.answer.failed):
            raise self._lost()

    def _wait(self, wait: float) -> bool:
        """Wait for the network or for `wake`; returns whether there is something to read."""
        sock: Any = self._client.socket()
        ready = self._client.buffered or (self.settings.tls and sock.pending() > 0)
        poll = select.poll()
        poll.register(sock, select.POLLIN | (select.POLLOUT if self.sending else 0))
        poll.register(self._wake_read, select.POLLIN)
        found = dict(poll.poll(0 if ready else wait * 1000))
        if self._wake_read.fileno() in found:
            with suppress(BlockingIOError):
                self._wake_read.recv(4096)
        return ready or bool(found.get(sock.fileno(), 0) & ~select.POLLOUT)

    def _read(self, most: int, most_bytes: int) -> None:
        client = self._client
        client.dry = False
        while not client.dry and client.socket() is not None:
            client.loop_read()
            if len(client.inbox) >= most or client.inbox_bytes >= most_bytes:
                break

    def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until `wake`."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if poll.poll(seconds * 1000):
            with suppress(BlockingIOError):
                self._wake_read.recv(4096)

    def flush(self) -> None:
        """Send what waits, as far as the network takes it now."""
        self._client.gather()
        if self._client.want_write():
            self._client.loop_write()

    def is_reachable(self) -> bool:
        """Whether somebody listens at the broker's address now."""
        place = (self.settings.host, self.settings.port)
        try:
            socket.create_connection(place, timeout=1.0).close()
        except OSError:
            return False
        return True

    def wake(self) -> None:
        """Let a `pump` that waits return; any thread and a signal's handler may call."""
        with suppress(OSError):
            self._wake_write.send(b"!")

    def subscribe(self, topic: str, qos: int) -> None:
        """Subscribe; returns when the broker has agreed, raises where it does not.

        Retained messages come only if the subscription is new; MQTT 3.1.1 sends them each time.
        """
        client = self._client
        asked = client.ask(topic, qos)
        if asked is None:
            raise self._lost()
        until = time.monotonic() + ANSWER_SECONDS
        while asked not in client.granted:
            if time.monotonic() > until:
                raise away(self.settings, "it does not answer a subscription")
            self.pump(0.5, most=1, most_bytes=1)
        if (answer := client.granted.pop(asked)).failed:
            raise no_rights(self.settings, topic, "read", answer.said)

    def unsubscribe(self, topic: str) -> None:
        """End a subscription; nothing of it comes any more when the broker has read this."""
        self._client.unsubscribe(topic)

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool = False,
        pairs: list[tuple[str, str]] | None = None,
        named: Mapping[str, bytes] | None = None,
    ) -> None:
        """Put a message on its way; `pump` sends it, and hears of its arrival.

        It is the caller's part to keep within the `window`; QoS 0 has no answer.
        """
        if not self._client.send(topic, payload, qos, retain, pairs or [], named or {}):
            raise self._lost()

    def settled(self) -> bool:
        """Whether the broker has all that was published; raises where it refused something."""
        client = self._client
        if client.rejected is not None:
            topic, answer = client.rejected
            if answer.code in _TOO_LARGE:
                raise too_large(self.settings, topic)
            raise no_rights(self.settings, topic, "write", answer.said)
        return not client.outstanding and not self.sending

    def acknowledge(self, message: Message) -> None:
        """Tell the broker that a message is kept; the next `pump` or `flush` sends it."""
        if message.qos == 1:
            self._client.acknowledge(message.id)
        elif message.qos == 2:
            self._client.promise(message.id)

    def complete(self, mid: int) -> None:
        """End the exchange of a message of QoS 2 which the broker let go of."""
        self._client.ack(mid, 2)

    def end_session(self) -> None:
        """Let the broker keep nothing when the connection is closed."""
        self._keep = False

    def close(self) -> None:
        """Disconnect in good order; the session stays if it is kept."""
        client = self._client
        if client.socket() is not None and client.answer is not None:
            client.leave(end_session=not self._keep)
            until = time.monotonic() + _FAREWELL_SECONDS
            while client.socket() is not None and time.monotonic() < until:
                self.flush()  # paho lets go of the connection when the farewell is sent
                if client.socket() is not None and self.sending:
                    self._wait(0.1)
        client.drop()
        self._wake_read.close()
        self._wake_write.close()

    def _lost(self) -> OperationFailed:
        said = self._client.farewell
        if said is not None:
            return refused(self.settings, said.code, said.said)
        return away(self.settings, "the connection was lost")
