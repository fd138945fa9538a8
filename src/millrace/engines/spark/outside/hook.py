"""A web hook that is sent a batch: once, to the address that was written and to no other."""

from __future__ import annotations

import html
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from millrace.engines.spark.outside.undone import SAID, Undone, one_line
from millrace.errors import OperationFailed
from millrace.model.outside import is_inner

#: Before a token in its header, and what is told in its place.
_BEARER: Final = "Bearer "
HIDDEN: Final = b"***"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: that would make a GET of the batch, and give the token to strangers."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Let the answer be an error."""


def _outer(address: tuple[str, int], *given: Any, **more: Any) -> socket.socket:
    """Connect; raises where a name stands for this machine or what only it reaches.

    Who may write such an address writes it as it is. It is looked at where the connection really
    goes: a name may stand for something else the next moment.
    """
    made = socket.create_connection(address, *given, **more)
    if not is_inner(address[0]) and is_inner(str(made.getpeername()[0])):
        made.close()
        raise OSError("its name stands for an address of the machine itself")
    return made


class _Plain(http.client.HTTPConnection):
    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._create_connection = _outer


class _Secure(http.client.HTTPSConnection):
    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._create_connection = _outer


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection that is looked at."""
        return self.do_open(_Plain, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a connection that is looked at."""
        return self.do_open(_Secure, request)


def bearer(token: str, where: str) -> str:
    """Return the header of a token; raises, without telling it, where it can't be one."""
    if not token or not token.isascii() or not token.isprintable():
        raise OperationFailed(
            "no-secret",
            f"{where}: the secret holds what a header can't (line ends, other than ASCII, nothing)",
            "write the token alone, in one line",
        )
    return f"{_BEARER}{token}"


def post(url: str, data: bytes, headers: Mapping[str, str], seconds: float) -> None:
    """Send a batch; raises where it was not taken, or not within so many seconds in all."""
    found: list[str] = []

    def exchange() -> None:
        found.append(_answer(url, data, headers, seconds))

    # The limit of a socket is one for each of its steps; names are even looked up without any.
    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise Undone(f"{host_of(url)} took longer than {seconds:g} s")
    if found[0]:
        raise Undone(f"{host_of(url)} {found[0]}")


def _answer(url: str, data: bytes, headers: Mapping[str, str], seconds: float) -> str:
    """What went wrong, in words without the address or the token; empty where nothing did."""
    opener = urllib.request.build_opener(_Stay, _PlainHandler, _SecureHandler)
    try:
        request = urllib.request.Request(url, data, dict(headers))  # noqa: S310 - checked
        with opener.open(request, timeout=seconds):
            return ""  # the batch is taken; what else is said does not matter
    except urllib.error.HTTPError as error:
        with error:
            return f"answered {error.code}{_said(url, error, headers.get('Authorization', ''))}"
    except urllib.error.URLError as error:
        return f"can't be reached: {error.reason}"
    except OSError as error:
        return f"can't be reached: {error}"
    except (HTTPException, ValueError) as error:  # their texts hold the address, or a header
        return f"can't be asked, for the address or the answer is none: {type(error).__name__}"


def _said(url: str, error: urllib.error.HTTPError, sent: str) -> str:
    """What the hook said to it, without the token that was sent: some say it back."""
    target = error.headers.get("Location")
    if 300 <= error.code < 400 and target:
        host = host_of(urljoin(url, target))
        other = f"another path of {host}" if host == host_of(url) else host
        return f" to {other}; write that address"
    try:
        forms = _forms(sent.removeprefix(_BEARER))
        longest = max(map(len, forms), default=0)
        said = error.read(SAID + longest)
        cut = longest if len(said) == SAID + longest else 0
        for form in forms:
            said = said.replace(form, HIDDEN)
        return f": {one_line(said[: len(said) - cut][:SAID])}"  # its end may be half a token
    except (OSError, HTTPException):
        return ""


def _forms(token: str) -> list[bytes]:
    """A token as answers may have it: as it is, or as texts of JSON, HTML or addresses."""
    said = json.dumps(token)[1:-1]
    found = (token, said, said.replace("/", "\\/"), html.escape(token), quote(token, safe=""))
    return [form.encode() for form in found if form]


def host_of(url: str) -> str:
    """Return what of an address may be told: paths and queries may hold secrets."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "the hook"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"
