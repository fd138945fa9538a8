"""Addresses, allowed options and topics; no broker is needed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.brokers.mqtt.properties import (
    MET_HEADERS,
    NAMED,
    REDELIVERED_HEADER,
    RETAINED_HEADER,
    TOPIC_HEADER,
    Message,
    pairs_of,
    record_of,
)
from millrace.brokers.mqtt.settings import checked, for_stream, of_managed, parsed
from millrace.brokers.mqtt.topics import check_read, check_written
from millrace.errors import OperationFailed
from millrace.ports import Record


@pytest.mark.parametrize(
    ("address", "full", "tls"),
    [
        ("tcp://a", "mqtt://a:1883", False),
        ("mqtt://a:7", "mqtt://a:7", False),
        ("a:7", "mqtt://a:7", False),
        ("ssl://a/", "mqtts://a:8883", True),
        ("mqtts://[::1]:9", "mqtts://[::1]:9", True),
    ],
)
def test_addresses(address: str, full: str, tls: bool) -> None:
    settings = checked({"address": address}, "broker")
    assert settings == {"address": full}
    assert parsed(settings).tls is tls
    assert checked(settings, "broker") == settings


@pytest.mark.parametrize(
    ("address", "way"),
    [
        ("mqqt://a", "mqtt://"),
        ("http://a", "known are"),
        ("", "mqtt://HOST:PORT"),
        ("mqtt://a/path", "mqtt://HOST:PORT"),
        ("mqtt://a:99999", "mqtt://HOST:PORT"),
        ("mqtt://me:secret@a", "username and password"),
    ],
)
def test_no_addresses(address: str, way: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        checked({"address": address}, "sites.x.broker")
    assert caught.value.code == "bad-address"
    assert way in caught.value.hint
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "code", "way"),
    [
        ({"pasword": "x"}, "setting-not-allowed", "'password'"),
        ({"zzz": "x"}, "setting-not-allowed", "known are"),
        ({"qos": "3"}, "bad-setting", "0, 1, 2"),
        ({"protocol": "4"}, "bad-setting", "5, 3.1.1"),
        ({"keepalive": "0"}, "bad-setting", "1 to 65535"),
        ({"session_expiry": "-1"}, "bad-setting", "whole number"),
        ({"retain": "yes"}, "bad-setting", "true, false"),
        ({"key": "k.pem"}, "setting-missing", "certificate"),
        ({"password": "x"}, "setting-missing", "username"),
        ({"tls": "true"}, "setting-not-allowed", ""),
    ],
)
def test_options_that_can_not_be(options: dict[str, str], code: str, way: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        checked({"address": "a", **options}, "sites.x.broker.options")
    assert caught.value.code == code
    assert way in caught.value.hint
    assert "sites.x.broker.options" in caught.value.message


def test_options_have_their_meaning_and_travel_as_json() -> None:
    given = {
        "address": "a", "username": "u", "password": "p", "keepalive": "5", "protocol": "3.1.1",
        "qos": "2", "retain": "true", "session_expiry": "60",
    }  # fmt: skip
    settings = json.loads(json.dumps(checked(given, "x")))
    seen = parsed(settings)
    assert (seen.username, seen.password, seen.keepalive, seen.qos) == ("u", "p", 5, 2)
    assert (seen.version5, seen.retain, seen.session_expiry) == (False, True, 60)
    usual = parsed({"address": "a"})
    assert (usual.version5, usual.qos, usual.retain) == (True, 1, False)


def test_a_stream_sets_its_own() -> None:
    settings = for_stream({"address": "a", "qos": "1"}, {"qos": 2, "retain": True}, "s")
    assert settings == {"address": "a", "qos": "2", "retain": "true"}
    with pytest.raises(OperationFailed) as caught:
        for_stream({"address": "a"}, {"password": "x"}, "s")
    assert caught.value.code == "setting-not-allowed"


def test_a_managed_one_has_options_of_its_own() -> None:
    assert of_managed({"tls": "true", "qos": "2"}, "x") == ({"tls": "true"}, {"qos": "2"})
    for wrong in ({"ca": "x"}, {"autosave": "0"}, {"tsl": "true"}):
        with pytest.raises(OperationFailed):
            of_managed(wrong, "x")


@pytest.mark.parametrize("topic", ["a/#/b", "a+", "a/b#", "", "a\0b", "\ud800", "x" * 65_536])
def test_topics_that_can_not_be_read(topic: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        check_read(topic)
    assert caught.value.code == "bad-topic"
    assert caught.value.hint


@pytest.mark.parametrize("topic", ["#", "+", "a/+/c", "a/#", "+/+/#", "ü/→", "/", "$SYS/#"])
def test_topics_that_can(topic: str) -> None:
    check_read(topic)


def test_wildcards_are_for_reading() -> None:
    for topic in ("a/+", "#"):
        with pytest.raises(OperationFailed) as caught:
            check_written(topic)
        assert "reading" in caught.value.hint


header_names = st.text(st.characters(codec="utf-8"), max_size=8).filter(
    lambda name: name not in {*MET_HEADERS, *NAMED}
)
texts = st.text(st.characters(codec="utf-8"), max_size=8).map(str.encode)
values = (
    st.binary(max_size=8) | texts | st.sampled_from([b"base64:", b"base64:YQ==", b"\xef\xbb\xbf"])
)


@given(
    value=st.none() | values,
    key=st.none() | values,
    headers=st.lists(
        st.tuples(header_names | st.sampled_from(["millrace-key", "millrace-name"]), values),
        max_size=4,
    ),
    time=st.none() | st.integers(-(2**40), 2**45),
)
def test_a_record_comes_back_as_it_was(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]], time: int | None
) -> None:
    sent = Record(value, key, tuple(headers), time=time)
    pairs = pairs_of(sent)
    for name, text in pairs:
        assert "\0" not in name + text
        assert "\ufeff" not in name + text
    got = record_of(Message("t", value or b"", pairs=tuple(pairs)), 7, wildcards=False)
    assert (got.value, got.key, got.headers) == (value, key, tuple(headers))
    assert got.time == (7 if time is None else time)


def test_what_a_stranger_wrote_stays() -> None:
    pairs = (("a", "base64:no!"), ("millrace-time", "x"), ("millrace-name", "x"), ("a", "1"))
    got = record_of(Message("t", b"v", pairs=pairs), 7, wildcards=False)
    assert got.headers == (("a", b"base64:no!"), ("millrace-name", b"x"), ("a", b"1"))
    assert got.time == 7


def test_what_a_message_met_is_told_and_does_not_travel_on() -> None:
    got = record_of(Message("a/b", b"", redelivered=True, retained=True), 7, wildcards=True)
    assert got.header(TOPIC_HEADER) == b"a/b"
    assert got.header(REDELIVERED_HEADER) == b"1"
    assert got.header(RETAINED_HEADER) == b"1"
    assert pairs_of(Record(b"", headers=got.headers)) == []


def test_a_header_that_is_too_long_is_told() -> None:
    with pytest.raises(OperationFailed) as caught:
        pairs_of(Record(b"", headers=(("h", b"\xff" * 65_000),)))
    assert caught.value.code == "too-large"
    assert "'h'" in caught.value.message
