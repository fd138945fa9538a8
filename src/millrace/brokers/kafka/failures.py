"""What a client of Kafka says went wrong, in words that say what to do.

librdkafka tells a caller only that no answer came. The reason (a wrong password, a certificate that
is not trusted, nobody listens) goes to a callback, which the client serves when it is polled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from millrace.errors import OperationFailed

#: How long a broker may take to answer at all.
ANSWER_SECONDS = 10.0
#: How long an address is tried at which nobody listens.
_REFUSED_SECONDS = 1.5
_FIRST_TRY = 0.5
#: What trying again does not help against.
FINAL = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
)
_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})

NO_RIGHTS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_LEADER = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_NO_ANSWER = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._DESTROY_BROKER,  # a broker that came back is another one to the client
    }
)
_CREDENTIALS = (
    "not-authenticated",
    "the credentials are not accepted by the broker at",
    "check sasl.mechanism, sasl.username and the secret of sasl.password",
)
#: Code, message and what to do for what trying again does not help against.
_REFUSED = {
    KafkaError._AUTHENTICATION: _CREDENTIALS,
    KafkaError.SASL_AUTHENTICATION_FAILED: _CREDENTIALS,
    KafkaError._SSL: (
        "not-trusted",
        "no TLS with the broker at",
        "check ssl.ca.location (who signed the broker's certificate), the host name in the "
        "address, and whether the broker speaks TLS at that port",
    ),
    KafkaError._INVALID_ARG: (
        "bad-setting",
        "no client can be made for the broker at",
        "check the broker's options",
    ),
}


class Complaints:
    """Hears what a client says of its connections; it is given to the client as `error_cb`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what was heard."""
        self.final: KafkaError | None = None
        self.last: KafkaError | None = None
        self.all_down = False

    def __call__(self, error: KafkaError) -> None:
        """Hear an error."""
        if error.code() in FINAL:
            self.final = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        else:
            self.last = error


def metadata(
    client: Any, complaints: Complaints, topic: str | None = None, limit: float = ANSWER_SECONDS
) -> Any:
    """Return what `list_topics` of a client returns; raises KafkaException with the reason.

    A consumer must have no partitions yet: it is polled.
    """
    complaints.clear()
    begun = time.monotonic()
    attempt = _FIRST_TRY
    while True:
        left = begun + limit - time.monotonic()
        try:
            return client.list_topics(topic, timeout=max(0.1, min(attempt, left)))
        except KafkaException as error:
            client.poll(0)
            if complaints.final is not None:
                raise KafkaException(complaints.final) from error
            if error.args[0].code() not in _AWAY:
                raise
            spent = time.monotonic() - begun
            if spent >= limit or (complaints.all_down and spent >= _REFUSED_SECONDS):
                raise KafkaException(complaints.last or error.args[0]) from error
        attempt *= 2


def failure(error: KafkaError, settings: Mapping[str, str], stream: str = "") -> OperationFailed:
    """Return the failure for an error; `transient` where trying again can help."""
    address = settings.get("bootstrap.servers", "?")
    code, said = error.code(), error.str()
    if code in NO_RIGHTS:
        return _no_rights(address, settings.get("sasl.username", "this user"), stream)
    if code in _NO_TOPIC:
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
    if code in _NO_ANSWER or code in _NO_LEADER:
        return _away(address, said, stream if code in _NO_LEADER else "")
    if code in _REFUSED:
        name, message, hint = _REFUSED[code]
        return OperationFailed(name, f"{message} {address}: {said}", hint)
    return OperationFailed("kafka", f"Kafka at {address}: {said}", transient=error.retriable())


def _away(address: str, said: str, stream: str) -> OperationFailed:
    if stream:
        return OperationFailed(
            "no-leader",
            f"a partition of {stream} is not served by the broker at {address}: {said}",
            "try again; if it stays so, look at the brokers",
            transient=True,
        )
    return OperationFailed(
        "no-broker",
        f"no Kafka answers at {address}: {said}",
        "is the address right (host:port) and the broker up? TLS or SASL need "
        "security.protocol in the broker's options",
        transient=True,
    )


def _no_rights(address: str, user: str, stream: str) -> OperationFailed:
    return OperationFailed(
        "no-rights",
        f"the broker at {address} lets {user} not use {stream or 'this topic'}",
        f"ask its owner for rights: read, write, describe and create on {stream or 'it'}",
    )
