"""A server for a station's API: bound before anything else begins, ended within seconds."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from millrace.api.app import application
from millrace.api.desk import Desk
from millrace.api.limits import Limits
from millrace.coordinator.station import Station
from millrace.errors import OperationFailed

#: Told once, with the URL, when requests are taken.
Ready = Callable[[str], None]
#: So long answers that are on their way may take when the server ends.
GRACE_SECONDS = 4
#: How long a thread that computes may keep others from running: answers wait for several turns.
SWITCH_SECONDS = 0.0005
#: When garbage is looked for. Nothing runs while all of it is, which takes a tenth of a second with
#: many jobs: by default several times a minute, like this each few minutes.
COLLECTED = (10_000, 20, 20)
_WILD = ("0.0.0.0", "::")  # noqa: S104 - only compared


@dataclass(frozen=True, slots=True)
class Bound:
    """An address that is ours: a socket that listens, and the certificate it is served with."""

    host: str
    listener: socket.socket
    context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """Where clients reach it."""
        port = self.listener.getsockname()[1]
        host = socket.gethostname() if self.host in _WILD else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.context is not None else 'http'}://{shown}:{port}"

    def close(self) -> None:
        """Let go of the address."""
        self.listener.close()


def bound(listen: str, certificate: Path | None = None, key: Path | None = None) -> Bound:
    """Take the address of an ADDRESS:PORT; port 0 is any that is free.

    Raises for an address that others reach where there is no certificate, and where it can't be
    had.
    """
    host, port = _parts(listen)
    context = _context(certificate, key)
    if context is None and not _is_loopback(host, port):
        raise OperationFailed(
            "no-certificate",
            f"{host} is reached from other machines, and tokens would go there unencrypted",
            "give a certificate (--certificate FILE --key FILE), or listen on 127.0.0.1 only",
        )
    return Bound(host, _listener(host, port), context)


def _parts(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal()) or int(port[:6]) > 65535:
        raise OperationFailed(
            "bad-address", f"{listen!r} is no address to listen on", "write 127.0.0.1:7717"
        )
    return host, int(port)


def _resolved(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise OperationFailed(
            "bad-address", f"{host} is no address of this machine: {error}", "listen on 127.0.0.1"
        ) from error
    return [(family, address) for family, _, _, _, address in found]


def _is_loopback(host: str, port: int) -> bool:
    """Whether nobody but this machine reaches an address, by all that its name stands for."""
    addresses = [str(address[0]).partition("%")[0] for _, address in _resolved(host, port)]
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


def _context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise OperationFailed(
            "bad-certificate",
            "a certificate and its key belong together",
            "give both: --certificate FILE --key FILE",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is one of the first, too
        raise OperationFailed(
            "bad-certificate",
            f"{certificate} and {key} can't be used: {error}",
            "give a certificate and its key in PEM, without a password",
        ) from error
    return context


def _no_password() -> str:
    """Nobody is asked for the password of a key."""
    return ""


def _listener(host: str, port: int) -> socket.socket:
    family, address = _resolved(host, port)[0]
    # Named TCP, or asyncio leaves Nagle's algorithm on, and each answer takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
        listener.settimeout(0)
    except OSError as error:
        listener.close()
        raise OperationFailed(
            "address-used",
            f"{host}:{port} can't be listened on: {error.strerror}",
            "stop who has it, or take another: --listen ADDRESS:PORT",
        ) from error
    return listener


class _Protocol(H11Protocol):
    """A connection that a route can cut off: who does not read would keep it for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "abort": transport.abort}
        super().connection_made(transport)


class _Uvicorn(uvicorn.Server):
    """A server that tells when it is ready, and sends home who waits when it ends."""

    def __init__(self, config: uvicorn.Config, desk: Desk, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._desk = desk
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._desk.news.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to who called: they ask to stop."""
        yield


@dataclass(slots=True)
class Server:
    """Serves a station at an address: `run` in one thread, `stop` from any."""

    station: Station
    address: Bound
    limits: Limits = field(default_factory=Limits)
    _asked: Event = field(default_factory=Event)
    _running: _Uvicorn | None = None

    def run(self, ready: Ready) -> None:
        """Serve until asked to stop; `ready` is told the URL when requests are taken."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.set_threshold(*COLLECTED)
        app = application(self.station, self.limits)
        context = self.address.context
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_context_factory=None if context is None else lambda _, __: context,
        )
        self._running = _Uvicorn(config, app.state.desk, lambda: ready(self.address.url))
        try:
            if not self._asked.is_set():
                self._running.run(sockets=[self.address.listener])
        finally:
            self.address.close()

    def stop(self) -> None:
        """End: who waits is sent home, and what is on its way may end."""
        self._asked.set()
        if self._running is not None:
            self._running.should_exit = True
