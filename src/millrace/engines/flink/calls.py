"""Requests to Flink's REST API: every one has limits, and what is refused is told as Flink said it.

No proxy is asked and no other address followed: a password would go there, too.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from millrace.errors import OperationFailed, nearest

#: An answer is smaller than this; the largest, an overview of jobs, takes some 400 bytes a job.
MOST_BYTES: Final = 32 << 20
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
#: The settings by which an attached cluster is reached and used.
OPTIONS: Final = ("certificate", "password", "savepoints", "user")
_PIECE: Final = 1 << 16
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_TRANSIENT: Final = (429, 502, 503, 504)


class Refused(OperationFailed):
    """Flink answered, and said no: `status`, and `said` with all that it told."""

    def __init__(self, status: int, said: str) -> None:
        self.status = status
        self.said = said
        first = said.strip().partition("\n")[0]
        super().__init__(
            "flink-refused",
            f"Flink answered {status}: {first or 'nothing else'}",
            transient=status in _TRANSIENT,
        )


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster's REST API is, and how one gets in. Shown without the password."""

    url: str
    secure: bool
    host: str
    port: int
    path: str
    headers: Mapping[str, str]
    certificate: Path | None = None

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


def address_of(url: str, options: Mapping[str, str] | None = None) -> Address:
    """Return an address in its parts; raises for what is none, and for settings that are unknown.

    `certificate` is the file of who is trusted, `user` and `password` go to whatever guards it.
    """
    given = dict(options or {})
    for name in given:
        if name not in OPTIONS:
            raise _unknown(name)
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise _no_address(url) from None
    good = parts.scheme in ("http", "https") and parts.hostname
    if not good or "@" in parts.netloc or parts.query or parts.fragment:
        raise _no_address(url)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    headers = {"Accept": "application/json"}
    if "user" in given or "password" in given:
        if not secure and host not in _LOOPBACK:
            raise OperationFailed(
                "password-in-clear",
                f"the password for {url} would go over the network as it is",
                "use https: or leave `user` and `password` out",
            )
        pair = f"{given.get('user', '')}:{given.get('password', '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    certificate = Path(given["certificate"]) if "certificate" in given else None
    path = parts.path.rstrip("/")
    return Address(url.rstrip("/"), secure, host, port, path, headers, certificate)


@dataclass(frozen=True, slots=True)
class Calls:
    """Asks a cluster; any thread may call. Each request has a connection of its own."""

    address: Address

    def get(self, path: str, *, seconds: float = ANSWER_SECONDS) -> Any:
        """Return what is at a path."""
        return self._asked("GET", path, None, {}, seconds)

    def post(self, path: str, document: Any, *, seconds: float = ANSWER_SECONDS) -> Any:
        """Have something done with a document, and return the answer."""
        body = json.dumps(document).encode()
        return self._asked("POST", path, body, {"Content-Type": "application/json"}, seconds)

    def patch(self, path: str, *, seconds: float = ANSWER_SECONDS) -> Any:
        """Have something changed."""
        return self._asked("PATCH", path, None, {}, seconds)

    def upload(self, path: str, file: Path, name: str, *, seconds: float) -> Any:
        """Send a jar under a name, piece by piece, as a form with one file."""
        border = uuid.uuid4().hex  # nothing in the jar may look like it
        head = (
            f"--{border}\r\n"
            f'Content-Disposition: form-data; name="jarfile"; filename="{name}"\r\n'
            "Content-Type: application/x-java-archive\r\n\r\n"
        ).encode()
        tail = f"\r\n--{border}--\r\n".encode()
        headers = {
            "Content-Type": f"multipart/form-data; boundary={border}",
            "Content-Length": str(len(head) + file.stat().st_size + len(tail)),
        }
        return self._asked("POST", path, _form(head, file, tail), headers, seconds)

    def _asked(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str],
        seconds: float,
    ) -> Any:
        until = time.monotonic() + seconds
        connection = self._connection(min(CONNECT_SECONDS, seconds))
        try:
            connection.connect()
            connection.sock.settimeout(seconds)
            sent = {**self.address.headers, **headers}
            connection.request(method, f"{self.address.path}{path}", body, sent)
            with connection.getresponse() as response:
                content = self._read(response, until)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return _json(content, self.address.url) if content.strip() else None
        raise Refused(response.status, _told(content))

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        where = self.address
        if not where.secure:
            return http.client.HTTPConnection(where.host, where.port, timeout=seconds)
        context = _trusted(where.certificate)
        return http.client.HTTPSConnection(where.host, where.port, timeout=seconds, context=context)

    def _read(self, response: http.client.HTTPResponse, until: float) -> bytes:
        """All of an answer, if it comes in time: bytes that drip in don't put the limit off."""
        found = bytearray()
        while piece := response.read1(_PIECE):
            found += piece
            if time.monotonic() > until:
                raise TimeoutError
            if len(found) > MOST_BYTES:
                raise OperationFailed("too-large", f"{self.address.url} answers without end")
        return bytes(found)

    def _unreached(self, error: Exception) -> OperationFailed:
        where = self.address.url
        if isinstance(error, ssl.SSLCertVerificationError):
            return OperationFailed(
                "untrusted",
                f"{where} shows a certificate that is not trusted: {error.verify_message}",
                "name the file of who signed it: the engine's option `certificate`",
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        late = isinstance(error, TimeoutError)
        said = "does not answer in time" if late else f"can't be reached: {why}"
        return OperationFailed(
            "unreachable",
            f"Flink at {where} {said}",
            "is its JobManager up, and is the engine's `address` that of its web page?",
            transient=True,
        )


def _form(head: bytes, file: Path, tail: bytes) -> Iterable[bytes]:
    yield head
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            yield piece
    yield tail


def _trusted(certificate: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(certificate) if certificate else None)
    except OSError as error:  # ssl.SSLError is one, too
        raise OperationFailed(
            "bad-certificate",
            f"{certificate} can't be read as a certificate: {error.strerror or error}",
            "give a file in PEM as the engine's option `certificate`",
        ) from None


def _json(content: bytes, url: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise OperationFailed(
            "no-flink", f"what answers at {url} is no Flink", "look at the engine's `address`"
        ) from None


def _told(content: bytes) -> str:
    """What Flink says against a request: a list of texts, the last one with the whole cause."""
    text = content.decode("utf-8", "replace")
    try:
        errors = json.loads(text)["errors"]
        return "\n".join(str(item) for item in errors)
    except (ValueError, KeyError, TypeError, RecursionError):
        return text[:2_000]


def _unknown(name: str) -> OperationFailed:
    near = nearest(name, OPTIONS)
    return OperationFailed(
        "setting-not-allowed",
        f"{name!r} is no setting of a Flink that is already there",
        f"did you mean {near!r}?" if near else f"there are {', '.join(OPTIONS)}",
    )


def _no_address(url: str) -> OperationFailed:
    return OperationFailed(
        "bad-address",
        f"{url.rpartition('@')[2]!r} is no address of a Flink",
        "it looks like http://10.0.0.7:8081/",
    )
