"""Packets read and written by hand, against what paho makes of the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt._packet import decode_publish
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from millrace.brokers.mqtt.packets import (
    PUBLISH,
    UserProperties,
    acknowledgement,
    length_at,
    message_of,
    whole_packet,
    written_length,
)

#: What MQTT and paho take as text.
TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=4)
V5, V3 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311


def body_of(topic: str, qos: int, number: int, properties: bytes, payload: bytes) -> bytes:
    name = topic.encode()
    mid = number.to_bytes(2, "big") if qos else b""
    return len(name).to_bytes(2, "big") + name + mid + properties + payload


def by_paho(pairs: list[tuple[str, str]]) -> bytes:
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if pairs:
        made.UserProperty = pairs
    return bytes(made.pack())  # type: ignore[no-untyped-call]


@given(PAIRS)
def test_user_properties_are_packed_as_paho_packs_them(pairs: list[tuple[str, str]]) -> None:
    assert UserProperties(pairs).pack() == by_paho(pairs)


@given(
    st.integers(0, 15), TEXTS.filter(bool), st.integers(1, 65_535), PAIRS, st.binary(max_size=300)
)
def test_messages_are_read_as_paho_reads_them(
    flags: int, topic: str, number: int, pairs: list[tuple[str, str]], payload: bytes
) -> None:
    first = PUBLISH | (flags if flags & 6 != 6 else 0)
    qos = (first & 6) >> 1
    for version in (V5, V3):
        properties = by_paho(pairs) if version is V5 else b""
        body = body_of(topic, qos, number, properties, payload)
        ours = message_of(first, body, version5=version is V5)
        theirs = decode_publish(first, body, version)
        assert ours is not None
        assert (ours.topic.encode(), ours.payload) == (theirs.topic, theirs.payload)
        assert (ours.qos, ours.id) == (theirs.qos, theirs.mid)
        assert (ours.redelivered, ours.retained) == (theirs.dup, theirs.retain)
        assert list(ours.pairs) == (pairs if version is V5 else [])


def test_what_mqtt_itself_names_is_left_to_paho() -> None:
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    made.ContentType = "text/plain"
    body = body_of("t", 1, 7, bytes(made.pack()), b"x")  # type: ignore[no-untyped-call]
    assert message_of(PUBLISH | 2, body, version5=True) is None


@given(st.binary(max_size=60), st.integers(0, 15), st.booleans())
def test_whatever_comes_is_a_message_or_is_left_to_paho(
    body: bytes, flags: int, version5: bool
) -> None:
    found = message_of(PUBLISH | flags, body, version5=version5)
    assert found is None or found.payload == body[len(body) - len(found.payload) :]
    assert found is None or found.qos < 3


@given(st.integers(0, 268_435_455), st.binary(max_size=3))
def test_lengths_are_read_as_they_are_written(value: int, behind: bytes) -> None:
    data = written_length(value) + behind
    assert length_at(data, 0) == (value, len(data) - len(behind))
    assert length_at(written_length(value)[:-1], 0) is None


@given(st.binary(max_size=200), st.binary(max_size=5))
def test_a_packet_is_whole_or_not_there(body: bytes, behind: bytes) -> None:
    packet = b"\x30" + written_length(len(body)) + body
    begin = len(packet) - len(body)
    assert whole_packet(b"??" + packet + behind, 2) == (0x30, 2 + begin, 2 + len(packet))
    assert all(whole_packet(packet[:cut], 0) is None for cut in range(len(packet)))
    assert acknowledgement(0x1234) == b"\x40\x02\x12\x34"
