"""What a client's socket is told: whom to trust, and how to part."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from typing import Any

from millrace.brokers.mqtt.settings import ClientSettings
from millrace.errors import OperationFailed

#: What a client knows that has said farewell, and how long it waits for the other end then.
LEAVING = object()
_GOOD_ORDER_SECONDS = 10.0


def trust_of(settings: ClientSettings) -> ssl.SSLContext:
    """Return whom a client trusts; raises where its certificates can't be read."""
    try:
        context = ssl.create_default_context(cafile=settings.ca)
        if settings.certificate is not None:
            context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise OperationFailed(
            "bad-setting",
            f"the certificates for {settings.address} can't be read: {said}",
            "ca, certificate and key are paths of PEM files on this machine",
        ) from error
    return context


def in_good_order(_: Any, data: Any, sock: Any) -> None:
    """Wait for the other end after a farewell.

    A socket that is closed while something came that was not read tells the other end to throw
    away what it has not read either: our last acknowledgements, and the farewell.
    """
    if data is not LEAVING:
        return
    until = time.monotonic() + _GOOD_ORDER_SECONDS
    with suppress(OSError, ValueError):
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(_GOOD_ORDER_SECONDS)
        while sock.recv(1 << 16) and time.monotonic() < until:
            pass


def without_delay(_: Any, __: Any, sock: Any) -> None:
    """Send acknowledgements at once, however small they are."""
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
