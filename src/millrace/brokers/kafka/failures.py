"""What a client of Kafka says went wrong, in words that say what to do."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from millrace.errors import OperationFailed


def failure(error: KafkaError, settings: Mapping[str, str], stream: str = "") -> OperationFailed:
    """Return the failure for an error; `transient` where trying again can help."""
    address = settings.get("bootstrap.servers", "?")
    code = error.code()
    if code in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    ):
        user = settings.get("sasl.username", "this user")
        return OperationFailed(
            "no-rights",
            f"the broker at {address} lets {user} not use {stream or 'this topic'}",
            f"ask its owner for rights: read, write, describe and create on {stream or 'it'}",
        )
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return OperationFailed(
            "no-stream",
            f"there is no topic {stream!r} on the broker at {address}",
            "millrace run creates the streams of a pipeline; is it the right broker?",
        )
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return OperationFailed(
            "too-large",
            f"a record is larger than {stream} takes",
            f"give the stream a larger max_record, such as streams.{stream}.max_record: 10 MB",
        )
    if code in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return OperationFailed(
            "not-authenticated",
            f"the broker at {address} does not accept the credentials: {error.str()}",
            "check sasl.mechanism, sasl.username and the secret of sasl.password",
        )
    if code in (
        KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT, KafkaError._RESOLVE,
    ):  # fmt: skip
        return OperationFailed(
            "no-broker",
            f"no Kafka answers at {address}",
            "is the address right (host:port) and the broker up? TLS or SASL need "
            "security.protocol in the broker's options",
            transient=True,
        )
    return OperationFailed(
        "kafka", f"Kafka at {address}: {error.str()}", transient=error.retriable()
    )
