"""What an error of Kafka's client means: what to do, and whether trying again can help."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from millrace.brokers.kafka.failures import failure

SETTINGS = {"bootstrap.servers": "here:9092", "sasl.username": "ann"}


@pytest.mark.parametrize(
    ("code", "name", "transient"),
    [
        (KafkaError._TRANSPORT, "no-broker", True),
        (KafkaError._TIMED_OUT, "no-broker", True),
        (KafkaError._DESTROY_BROKER, "no-broker", True),
        (KafkaError.LEADER_NOT_AVAILABLE, "no-leader", True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "no-stream", False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "no-rights", False),
        (KafkaError.MSG_SIZE_TOO_LARGE, "too-large", False),
        (KafkaError._AUTHENTICATION, "not-authenticated", False),
        (KafkaError._SSL, "not-trusted", False),
        (KafkaError._INVALID_ARG, "bad-setting", False),
    ],
)
def test_errors_say_whether_to_try_again(code: int, name: str, *, transient: bool) -> None:
    found = failure(KafkaError(code), SETTINGS, "raw")
    assert (found.code, found.transient) == (name, transient)
    assert found.hint
