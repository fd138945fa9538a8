"""Settings of Kafka's clients and topics: what may be said, and how Java says it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.brokers.kafka import AttachedKafka
from millrace.brokers.kafka.settings import ALLOWED, checked, for_java
from millrace.brokers.kafka.topics import topic_settings
from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream

BASE = {"bootstrap.servers": "h:1"}


@pytest.mark.parametrize(
    "name",
    ["sasl.jaas.config", "plugin.library.paths", "sasl.oauthbearer.token.endpoint.url", "x"],
)
def test_what_names_code_or_addresses_is_refused(name: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        AttachedKafka({**BASE, name: "anything"}, "sites.a.broker.options")
    assert caught.value.code == "setting-not-allowed"
    assert name in caught.value.message
    assert "sites.a.broker.options" in caught.value.message
    assert any(allowed in caught.value.hint for allowed in ALLOWED)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("sasl.user.name", "sasl.username"),
        ("ssl.ca.file.location", "ssl.ca.location"),
        ("security.protocoll", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
    ],
)
def test_a_near_name_is_offered(wrong: str, right: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        checked({wrong: "x"}, "here")
    assert caught.value.hint == f"did you mean {right!r}?"


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI", "plain"])
def test_a_mechanism_that_java_would_not_get_is_refused(mechanism: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        checked({"sasl.mechanism": mechanism}, "here")
    assert "SCRAM-SHA-512" in caught.value.hint


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PEM = {"ssl.keystore.type": "PEM"}


@pytest.mark.parametrize(
    ("ours", "java"),
    [
        ({"client.id": "c", **BASE}, {"client.id": "c", **BASE}),
        (
            {"sasl.username": "u", "sasl.password": "p"},
            {"sasl.jaas.config": f'{PLAIN} required username="u" password="p";'},
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": 'a"b\\c'},
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{SCRAM} required username="u" password="a\\"b\\\\c";',
            },
        ),
        (
            {"ssl.ca.location": "/ca.crt"},
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.crt"},
        ),
        ({"ssl.certificate.location": "/c.pem"}, {**PEM, "ssl.keystore.location": "/c.pem"}),
        (
            {"ssl.certificate.location": "/c", "ssl.key.location": "/c", "ssl.key.password": "s"},
            {**PEM, "ssl.keystore.location": "/c", "ssl.key.password": "s"},
        ),
        (
            {"ssl.certificate.location": "/a/c.crt", "ssl.key.location": "/b/k.key"},
            {
                **PEM,
                "ssl.keystore.certificate.chain": "${folder:/a:c.crt}",
                "ssl.keystore.key": "${folder:/b:k.key}",
                "config.providers": "folder",
                "config.providers.folder.class": (
                    "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
                ),
            },
        ),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            {"ssl.endpoint.identification.algorithm": ""},
        ),
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
    ],
)
def test_java_gets_its_own_names(ours: dict[str, str], java: dict[str, str]) -> None:
    assert for_java(ours) == java


def jaas(text: str) -> dict[str, str]:
    """Read the options of a login module, as Java's reader of such texts does."""
    module, flag, rest = text.split(" ", 2)
    assert module.endswith("LoginModule")
    assert flag == "required"
    options: dict[str, str] = {}
    while rest != ";":
        name, _, rest = rest.strip().partition('="')
        value, at = "", 0
        while rest[at] != '"':
            at += rest[at] == "\\"
            value, at = value + rest[at], at + 1
        options[name], rest = value, rest[at + 1 :]
    return options


@given(
    user=st.text(st.characters(exclude_characters="\n\r\0")),
    password=st.text(st.sampled_from("\"\\;= ab'$")),
)
def test_any_name_and_password_reach_java(user: str, password: str) -> None:
    text = for_java({"sasl.username": user, "sasl.password": password})["sasl.jaas.config"]
    assert jaas(text) == {"username": user, "password": password}


def test_what_a_stream_says_is_what_its_topic_gets() -> None:
    stream = Stream(
        name="s",
        retention=Duration.parse("2 h"),
        max_record=Size(1_000_000),
        options={"segment.ms": 1000, "unclean.leader.election.enable": False},
    )
    assert topic_settings(stream) == {
        "retention.ms": "7200000",
        "max.message.bytes": str(1_000_000 + 64 * 1024),
        "segment.ms": "1000",
        "unclean.leader.election.enable": "false",
    }
    assert topic_settings(Stream(name="s")) == {}
    assert topic_settings(Stream(name="s", retention=Size(5))) == {"retention.bytes": "5"}


@pytest.mark.parametrize("name", ["retention.ms", "cleanup.policy", "segment.byte"])
def test_a_setting_of_topics_that_has_a_better_name_is_refused(name: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        topic_settings(Stream(name="s", options={name: 1}))
    assert caught.value.code == "setting-not-allowed"
    assert "stream s" in caught.value.message
    assert caught.value.hint
