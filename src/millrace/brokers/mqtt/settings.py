"""Settings of MQTT's clients: addresses, an allow-list, and what they mean.

The dialect `mqtt`: plain texts by the names that users write under `sites.NAME.broker.options`,
with the broker's `address` beside them, so that they can travel as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from millrace.errors import OperationFailed, nearest
from millrace.model.types import Option, Secret

#: The port of each scheme, and whether it is TLS.
SCHEMES: Final = {
    "mqtt": (1883, False),
    "tcp": (1883, False),
    "mqtts": (8883, True),
    "ssl": (8883, True),
}
_BOOLEANS: Final = ("true", "false")
#: Each option with the values that it takes; None is any text, a pair the least and the greatest.
_OPTIONS: Final[Mapping[str, tuple[str, ...] | tuple[int, int] | None]] = {
    "username": None,
    "password": None,
    "ca": None,
    "certificate": None,
    "key": None,
    "keepalive": (1, 65_535),
    "protocol": ("5", "3.1.1"),
    "qos": ("0", "1", "2"),
    "retain": _BOOLEANS,
    "session_expiry": (0, 4_294_967_295),
}
_CERTIFICATES: Final = frozenset({"ca", "certificate", "key"})
#: Options of a broker of our own, which its clients do not have.
_SERVER_OPTIONS: Final[Mapping[str, tuple[str, ...] | tuple[int, int] | None]] = {
    "tls": _BOOLEANS,
    "autosave": (1, 1_000_000),
}
#: What a stream may set for itself.
STREAM_OPTIONS: Final = frozenset({"qos", "retain"})
#: Detects a half-open connection within twice this, in seconds.
KEEPALIVE: Final = 10
#: A week: how long a broker keeps what a receiver that is away has not had.
SESSION_EXPIRY: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What the settings of a client say."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    keepalive: int = KEEPALIVE
    version5: bool = True
    qos: int = 1
    retain: bool = False
    session_expiry: int = SESSION_EXPIRY

    @property
    def address(self) -> str:
        """Where the broker is, as it is told to people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


def checked(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the settings, with the address written out; raises for what can't be, with a way out.

    A setting that is not on the list is refused with the near name.
    """
    for name, value in settings.items():
        if name != "address":
            _check(name, value, _OPTIONS, where)
    if "key" in settings and "certificate" not in settings:
        raise OperationFailed(
            "setting-missing", f"{where}: a key without its certificate", "set certificate, too"
        )
    if "password" in settings and "username" not in settings:
        raise OperationFailed(
            "setting-missing", f"{where}: a password without a username", "set username, too"
        )
    given = dict(settings)
    given["address"] = parsed(settings, where).address
    return given


def of_managed(options: Mapping[str, str], where: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of a broker of our own, checked: those of the server, and of clients.

    Its certificates are its own, so clients can't name others.
    """
    allowed = {name: _OPTIONS[name] for name in _OPTIONS if name not in _CERTIFICATES}
    for name, value in options.items():
        _check(name, value, {**_SERVER_OPTIONS, **allowed}, where)
    server = {name: value for name, value in options.items() if name in _SERVER_OPTIONS}
    return server, {name: options[name] for name in options if name not in server}


def parsed(settings: Mapping[str, str], where: str = "broker") -> ClientSettings:
    """Return what settings say that `checked` has seen."""
    host, port, tls = split_address(settings.get("address", ""), where)
    return ClientSettings(
        host,
        port,
        tls,
        settings.get("username"),
        settings.get("password"),
        settings.get("ca"),
        settings.get("certificate"),
        settings.get("key"),
        int(settings.get("keepalive", KEEPALIVE)),
        settings.get("protocol", "5") == "5",
        int(settings.get("qos", "1")),
        settings.get("retain") == "true",
        int(settings.get("session_expiry", SESSION_EXPIRY)),
    )


def for_stream(
    settings: Mapping[str, str], options: Mapping[str, Option] | None, stream: str
) -> dict[str, str]:
    """Return a client's settings with what a stream says for itself: qos, retain."""
    own = {}
    for name, value in (options or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        allowed = {option: _OPTIONS[option] for option in STREAM_OPTIONS}
        _check(name, "" if isinstance(value, Secret) else text, allowed, f"stream {stream}")
        own[name] = text
    return {**settings, **own}


def split_address(address: str, where: str) -> tuple[str, int, bool]:
    """Return host, port and whether it is TLS; an address without a scheme is a plain one."""
    text = address if "://" in address else f"mqtt://{address}"
    way = "write it as mqtt://HOST:PORT, or as mqtts://HOST:PORT for TLS"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise OperationFailed("bad-address", f"{where}: {address!r}: {error}", way) from error
    if parts.scheme not in SCHEMES:
        near = nearest(parts.scheme, SCHEMES)
        raise OperationFailed(
            "bad-address",
            f"{where}: {parts.scheme}:// is no scheme of MQTT",
            f"did you mean {near}://?" if near else f"known are {', '.join(sorted(SCHEMES))}",
        )
    if "@" in parts.netloc:
        raise OperationFailed(
            "bad-address",
            f"{where}: the address holds a user",
            "write username and password among the broker's options",
        )
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise OperationFailed("bad-address", f"{where}: {address!r} is no address of a broker", way)
    usual, tls = SCHEMES[parts.scheme]
    return parts.hostname, usual if port is None else port, tls


def _check(
    name: str,
    value: str,
    allowed: Mapping[str, tuple[str, ...] | tuple[int, int] | None],
    where: str,
) -> None:
    if name not in allowed:
        near = nearest(name, allowed)
        raise OperationFailed(
            "setting-not-allowed",
            f"{where}: {name!r} is not a setting of MQTT that may be set here",
            f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(allowed))}",
        )
    values = allowed[name]
    if values is None or value in values:
        return
    least, greatest = values[0], values[-1]
    if not isinstance(least, int) or not isinstance(greatest, int):
        way = f"use one of {', '.join(map(str, values))}"
    elif value.isascii() and value.isdigit() and least <= int(value) <= greatest:
        return
    else:
        way = f"write a whole number from {least} to {greatest}"
    raise OperationFailed("bad-setting", f"{where}: {name} can't be {value!r}", way)
