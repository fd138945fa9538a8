"""Paho's client, made to hand things over as plain values; the only user of paho.

What the broker says is put down in attributes as it is read, and nothing else is done then.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import (
    CallbackAPIVersion,
    MessageState,
    MQTTErrorCode,
    MQTTProtocolVersion,
)
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from millrace.brokers.mqtt import properties as names
from millrace.brokers.mqtt.packets import (
    PUBACK,
    PUBLISH,
    UserProperties,
    acknowledgement,
    message_of,
    whole_packet,
)
from millrace.brokers.mqtt.properties import Message
from millrace.brokers.mqtt.settings import ClientSettings
from millrace.brokers.mqtt.sockets import LEAVING, in_good_order, trust_of, without_delay

#: So much is taken from the network at once.
_CHUNK = 256 * 1024
#: As many messages as there are ids.
LARGEST_WINDOW = 65_535
#: How long a session lasts that is only kept for a connection that is lost, in seconds.
_SHORT_EXPIRY = 600
#: Paho's own number for: clean at the first time, not when it connects again.
_FIRST_ONLY = 3
#: What MQTT itself names, by our headers and by paho's attributes.
_TEXTS = {names.CONTENT_TYPE: "ContentType", names.RESPONSE_TOPIC: "ResponseTopic"}
_BYTES = {names.CORRELATION: "CorrelationData"}
_NUMBERS = {
    names.EXPIRY: "MessageExpiryInterval",
    names.TEXT_FORMAT: "PayloadFormatIndicator",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker said to something."""

    code: int
    said: str
    failed: bool
    #: To a connection: there is a session of ours, and so many messages may be on their way.
    session: bool = False
    window: int = LARGEST_WINDOW


class Client(PahoClient):
    """Paho's client, which hands a message of QoS 2 over before it promises to have it.

    As it is, it promises (PUBREC) when the message is in memory: a process that ends then has lost
    it. It also asks the system three times for each message; here a buffer is between.
    """

    def __init__(self, settings: ClientSettings, client_id: str, keep: bool | None) -> None:
        self._taken, self._at = b"", 0
        #: Acknowledgements that were not put on their way yet: they go together.
        self._acks = bytearray()
        self._begun = False
        self._keep = keep
        self._settings = settings
        #: Nothing more is there to read.
        self.dry = False
        self.answer: Answer | None = None
        #: With what the broker ended the connection, and how it answered subscriptions.
        self.farewell: Answer | None = None
        self.granted: dict[int, Answer] = {}
        #: What came and was not taken yet; ids of QoS 2 that the broker let go of.
        self.inbox: list[Message] = []
        self.inbox_bytes = 0
        self.released: list[int] = []
        #: Topics of messages that the broker has not answered, by id; what it refused.
        self.outstanding: dict[int, str] = {}
        self.rejected: tuple[str, Answer] | None = None
        v5 = settings.version5
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if v5 else keep is not True,
            protocol=MQTTProtocolVersion.MQTTv5 if v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self._prepare(settings)

    def _prepare(self, settings: ClientSettings) -> None:
        self.username_pw_set(settings.username, settings.password)
        if settings.tls:
            self.tls_set_context(trust_of(settings))
        self.max_inflight_messages_set(0)  # the window is the caller's to keep
        self.on_connect = self._connected
        self.on_disconnect = self._disconnected
        self.on_subscribe = self._subscribed
        self.on_publish = self._published
        self.on_message = self._came
        self.on_socket_open = without_delay
        self.on_socket_close = in_good_order
        self.on_socket_register_write = _later

    def begin(self, limit: float) -> None:
        """Connect, or connect again; the answer comes later. Raises OSError or ValueError."""
        self._taken, self._at, self.dry = b"", 0, False
        self._acks.clear()
        self.take()
        self.answer = self.farewell = None
        self.user_data_set(None)
        if self._begun:
            self.reconnect()
            return
        self.connect_timeout = limit
        given: dict[str, Any] = {}
        if self._settings.version5:
            clean = {True: False, False: True, None: _FIRST_ONLY}[self._keep]
            expiry = {True: self._settings.session_expiry, False: 0, None: _SHORT_EXPIRY}
            kept = _properties(PacketTypes.CONNECT, SessionExpiryInterval=expiry[self._keep])
            given = {"clean_start": clean, "properties": kept}
        self._begun = True
        self.connect(self._settings.host, self._settings.port, self._settings.keepalive, **given)

    def leave(self, end_session: bool) -> None:
        """Put a farewell on its way, behind all that was to be said before."""
        self.gather()
        over = None
        if end_session and self._settings.version5:
            over = _properties(PacketTypes.DISCONNECT, SessionExpiryInterval=0)
        self.user_data_set(LEAVING)
        self.disconnect(properties=over)

    def drop(self) -> None:
        """Let go of the connection without a word."""
        self._sock_close()

    @property
    def buffered(self) -> bool:
        """Whether something was read that no packet was made of."""
        return self._at < len(self._taken)

    def ask(self, topic: str, qos: int) -> int | None:
        """Ask for a subscription and return the question's id; None where nobody is there."""
        if self._settings.version5:
            options = SubscribeOptions(qos, retainHandling=1)
            result, mid = self.subscribe([(topic, options)])
        else:
            result, mid = self.subscribe([(topic, qos)])
        return mid if result is MQTTErrorCode.MQTT_ERR_SUCCESS else None

    def send(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        pairs: list[tuple[str, str]],
        named: Mapping[str, bytes],
    ) -> bool:
        """Put a message on its way; False where it can't be and nobody will send it later."""
        given: Any = None
        if self._settings.version5 and named:
            given = _publish_properties(pairs, named)
        elif self._settings.version5 and pairs:
            given = UserProperties(pairs)
        info = self.publish(topic, payload, qos, retain, given)
        if qos and info.rc is not MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            self.outstanding[info.mid] = topic
            return True
        return info.rc is MQTTErrorCode.MQTT_ERR_SUCCESS

    def take(self) -> tuple[list[Message], list[int]]:
        """Take away what came, and the ids that the broker let go of."""
        taken = (self.inbox, self.released)
        self.inbox, self.released, self.inbox_bytes = [], [], 0
        return taken

    def promise(self, mid: int) -> None:
        """Tell the broker that a message of QoS 2 is kept."""
        super()._send_pubrec(mid)

    def acknowledge(self, mid: int) -> None:
        """Tell the broker that a message of QoS 1 is kept; `gather` puts it on its way."""
        self._acks += acknowledgement(mid)

    def gather(self) -> None:
        """Put all acknowledgements on their way, as one packet."""
        if self._acks:
            self._packet_queue(PUBACK, bytes(self._acks), 0, 0)
            self._acks.clear()

    def _packet_read(self) -> MQTTErrorCode:
        """Read a packet; one of the usual kinds that is there as a whole at once."""
        if not self._in_packet["command"]:
            found = whole_packet(self._taken, self._at)
            if found is not None and self._handled(*found):
                return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._packet_read()

    def _handled(self, first: int, begin: int, end: int) -> bool:
        """Take a message, or the answer to one of ours; False where that is for paho to read."""
        kind = first & 0xF0
        if kind == PUBLISH:
            body = self._taken[begin:end]
            message = message_of(first, body, version5=self._settings.version5)
            if message is None:
                return False
            self.inbox.append(message)
            self.inbox_bytes += len(message.payload)
        elif kind == PUBACK and end - begin == 2:
            mid = int.from_bytes(self._taken[begin:end], "big")
            self.outstanding.pop(mid, None)
            if self._out_messages.pop(mid, None) is not None:
                self._inflight_messages -= 1
        else:
            return False
        self._at = end
        self._last_bytes_received = time.monotonic()
        return True

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._at >= len(self._taken):
            try:
                self._taken, self._at = super()._sock_recv(_CHUNK), 0
            except BlockingIOError:
                self.dry = True
                raise
        piece = self._taken[self._at : self._at + bufsize]
        self._at += len(piece)
        return piece

    def _sock_send(self, buf: bytes | bytearray) -> int:
        """Send, or let it be where nobody is there any more: what came before must be read yet.

        A broker that dies may have left us messages that it told their writers it has. Paho would
        close the connection; reading finds its end, too, after them.
        """
        try:
            return super()._sock_send(buf)
        except BlockingIOError:
            raise
        except OSError:
            return len(buf)

    def _messages_reconnect_reset_out(self) -> None:
        """As paho does it, which forgets at a second try what the broker let go of at the first.

        It would publish such messages of QoS 2 again: they would come twice.
        """
        for message in self._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        super()._messages_reconnect_reset_out()

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        """As paho does it, but a connection that is not trusted is closed."""
        assert self._ssl_context is not None  # noqa: S101 - it was set
        sock = self._ssl_context.wrap_socket(
            tcp_sock, server_hostname=self._settings.host, do_handshake_on_connect=False
        )
        try:
            sock.settimeout(self.connect_timeout)
            sock.do_handshake()
        except BaseException:
            sock.close()
            raise
        return sock

    def _send_pubrec(self, mid: int) -> MQTTErrorCode:  # noqa: ARG002 - sent by `promise`
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_publish(self) -> MQTTErrorCode:
        result = super()._handle_publish()
        while self._in_messages:
            self._handle_on_message(self._in_messages.popitem(last=False)[1])
        return result

    def _handle_pubrel(self) -> MQTTErrorCode:
        self.released.append(int.from_bytes(self._in_packet["packet"][:2], "big"))
        return super()._handle_pubrel()

    def _connected(
        self, _: Any, __: Any, flags: ConnectFlags, reason: ReasonCode, given: Properties | None
    ) -> None:
        window = getattr(given, "ReceiveMaximum", None) or LARGEST_WINDOW
        said = _answer(reason)
        self.answer = Answer(said.code, said.said, said.failed, flags.session_present, window)

    def _disconnected(
        self, _: Any, __: Any, flags: DisconnectFlags, reason: ReasonCode, ___: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self.farewell = _answer(reason)

    def _subscribed(self, _: Any, __: Any, mid: int, reasons: Any, ___: Any) -> None:
        self.granted[mid] = _answer(reasons[0])

    def _published(self, _: Any, __: Any, mid: int, reason: ReasonCode, ___: Any) -> None:
        topic = self.outstanding.pop(mid, None)
        if topic is not None and reason.is_failure and self.rejected is None:
            self.rejected = (topic, _answer(reason))

    def _came(self, _: Any, __: Any, message: MQTTMessage) -> None:
        self.inbox.append(_message(message))
        self.inbox_bytes += len(message.payload)


def _answer(reason: ReasonCode) -> Answer:
    return Answer(reason.value, str(reason).lower(), reason.is_failure)


def _message(message: MQTTMessage) -> Message:
    given: Any = message.properties
    pairs: tuple[tuple[str, str], ...] = ()
    named: list[tuple[str, bytes]] = []
    if given is not None and not given.isEmpty():
        pairs = tuple(getattr(given, "UserProperty", ()))
        for header, attribute in (_TEXTS | _NUMBERS).items():
            if (value := getattr(given, attribute, None)) is not None:
                named.append((header, str(value).encode()))
        for header, attribute in _BYTES.items():
            if (value := getattr(given, attribute, None)) is not None:
                named.append((header, bytes(value)))
    return Message(
        message.topic,
        bytes(message.payload),
        message.qos,
        message.mid,
        message.dup,
        message.retain,
        pairs,
        tuple(named),
    )


def _properties(kind: int, **values: Any) -> Properties:
    made = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _publish_properties(pairs: list[tuple[str, str]], named: Mapping[str, bytes]) -> Properties:
    """Properties of a message; a header that can't be the property of its name is left out."""
    values: dict[str, Any] = {"UserProperty": pairs} if pairs else {}
    for header, value in named.items():
        if header in _BYTES:
            values[_BYTES[header]] = value
        elif header in _TEXTS:
            values[_TEXTS[header]] = value.decode("utf-8", "replace")
        elif value.isdigit():
            values[_NUMBERS[header]] = int(value)
    return _properties(PacketTypes.PUBLISH, **values)


def _later(_: Any, __: Any, ___: Any) -> None:
    """Leave what is to be sent to `pump`: that there is a callback tells paho so."""
