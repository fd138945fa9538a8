"""What goes wrong between a client of MQTT and its broker, in words that say what to do."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from millrace.brokers.mqtt.settings import ClientSettings
from millrace.errors import OperationFailed

#: Another client with our id has our session now.
TAKEN: Final = "id-taken"
_TAKEN_REASON: Final = 0x8E
_PASSWORD: Final = frozenset({0x86, 0x87, 0x8C})
_VERSION: Final = frozenset({0x84})
_BAD_ID: Final = frozenset({0x85})
_BUSY: Final = frozenset({0x88, 0x89, 0x8B, 0x8D, 0x93, 0x96, 0x97, 0x98, 0x9F, 0xA0})
_MOVED: Final = frozenset({0x9C, 0x9D})
_TOO_LARGE: Final = 0x95


def not_reached(settings: ClientSettings, error: Exception) -> OperationFailed:
    """Return the failure for a connection that could not be made."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(settings, error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason is not None:
        return _not_trusted(settings, error.reason.replace("_", " ").lower())
    if isinstance(error, socket.gaierror):
        said = f"{settings.host} has no address"
    elif isinstance(error, TimeoutError):
        said = "nothing came in time"
    else:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return away(settings, said)


def away(settings: ClientSettings, said: str) -> OperationFailed:
    """Return the failure for a broker that is not there, now."""
    other = "mqtt:// without" if settings.tls else "mqtts:// with"
    return OperationFailed(
        "no-broker",
        f"no MQTT broker answers at {settings.address}: {said}",
        f"is the address right and the broker up? ({other} TLS; an old broker wants "
        "protocol: 3.1.1 in the broker's options)",
        transient=True,
    )


def _not_trusted(settings: ClientSettings, said: str) -> OperationFailed:
    return OperationFailed(
        "not-trusted",
        f"no TLS with the broker at {settings.address}: {said}",
        "check ca (who signed the broker's certificate), certificate and key, the host name in the "
        "address, and whether the broker speaks TLS at that port",
    )


def refused(settings: ClientSettings, reason: int, said: str) -> OperationFailed:
    """Return the failure for a broker that said no when we came, or sent us away."""
    at = settings.address
    if reason in _PASSWORD:
        who = "nobody" if settings.username is None else settings.username
        return OperationFailed(
            "not-authenticated",
            f"the broker at {at} does not let {who} in: {said}",
            "check username and the secret of password in the broker's options",
        )
    if reason == _TAKEN_REASON:
        return taken(settings)
    if reason in _VERSION:
        return OperationFailed(
            "bad-setting",
            f"the broker at {at} does not speak MQTT {'5' if settings.version5 else '3.1.1'}",
            f"write protocol: {'3.1.1' if settings.version5 else '5'} in the broker's options",
        )
    if reason in _BAD_ID:
        return OperationFailed(
            "bad-setting", f"the broker at {at} does not take our client id: {said}",
            "ask its owner which ids are allowed",
        )  # fmt: skip
    if reason in _MOVED:
        return OperationFailed(
            "moved", f"the broker at {at} sends us elsewhere: {said}", "use its new address"
        )
    if reason == _TOO_LARGE:
        return too_large(settings, "")
    if reason in _BUSY:
        return away(settings, said)
    return OperationFailed(
        "mqtt", f"the broker at {at} ended it: {said}", "see the broker's log", transient=True
    )


def taken(settings: ClientSettings, client_id: str = "") -> OperationFailed:
    """Return the failure for a second client with the same id.

    With a `client_id` it is a guess: the broker lets us in and ends it soon, again and again.
    """
    said = "another client took over our session"
    if client_id:
        said = f"another client seems to take over the session {client_id}, again and again,"
    return OperationFailed(
        TAKEN,
        f"{said} at {settings.address}",
        "is this job running twice? One receiver may have a client id; end the other one",
    )


def too_large(settings: ClientSettings, topic: str) -> OperationFailed:
    """Return the failure for a message that the broker does not take."""
    return OperationFailed(
        "too-large",
        f"a record is larger than the broker at {settings.address} takes"
        + (f" on {topic}" if topic else ""),
        "raise the broker's limit (Mosquitto: max_packet_size, message_size_limit)",
    )


def no_rights(settings: ClientSettings, topic: str, what: str, said: str) -> OperationFailed:
    """Return the failure for a topic that we may not use."""
    return OperationFailed(
        "no-rights",
        f"the broker at {settings.address} lets {settings.username or 'nobody'} not {what} "
        f"{topic}: {said}",
        f"ask its owner for the right to {what} it",
    )


def no_partition(topic: str, partition: int) -> OperationFailed:
    """Return the failure for a partition that no topic has."""
    return OperationFailed(
        "no-partition",
        f"{topic} has no partition {partition}: it has 1",
        "MQTT has no partitions; ask for 0",
    )
