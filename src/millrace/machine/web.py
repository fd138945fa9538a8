"""Requests to a coordinator's API; the only importer of httpx.

Everything has a time limit, the token goes into no text, and what is refused says why and what to
do, as the coordinator said it.
"""

from __future__ import annotations

import io
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from millrace.errors import OperationFailed
from millrace.machine.address import checked_url, trusted
from millrace.machine.sse import Decoder

if TYPE_CHECKING:
    import httpx

#: Where the API begins; paths are given below it.
API = "/api/v1"
#: An answer of JSON is smaller than this; artifacts are not read whole.
MOST_BYTES = 256 << 20
_PIECE = 1 << 16
_TRANSIENT = frozenset({429, 502, 503, 504})
_OPTION = "--server, or --join of an agent"
_WAY = f"is it up (millrace up), and is the address right ({_OPTION})?"

Params = Mapping[str, str | int | float | None]
#: An event of a stream: its kind, its number where it has one, its data.
Event = tuple[str, str | None, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many seconds what is waited for."""

    connect: float = 5.0
    #: A whole answer, from the request on.
    answer: float = 30.0
    #: Streams: the longest silence. A half-open connection is found by it.
    silence: float = 30.0
    #: Streams: the wait before a broken one is taken up again, first and at most.
    again: tuple[float, float] = (0.5, 10.0)


class Refused(OperationFailed):
    """The coordinator answered, and said no: `status`, and `document` with what it told."""

    def __init__(self, status: int, document: Mapping[str, Any], reason: str) -> None:
        self.status = status
        self.document = dict(document)
        code = str(document.get("code") or f"http-{status}")
        detail = document.get("detail") or document.get("title") or reason
        super().__init__(
            code,
            str(detail),
            str(document.get("hint") or ""),
            transient=status in _TRANSIENT or (status == 409 and code == "busy"),
        )


class _BrokenOff(OperationFailed):
    """A connection that was there and is no more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `document` is None where nothing did. Names of headers are small."""

    status: int
    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def at(*parts: str | int) -> str:
    """Return the path of a resource; a part may hold any character."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


class Web:
    """A coordinator's API; any thread may call. Connections are kept until `close`.

    Every method raises `Refused` for what the coordinator refuses, and `OperationFailed` with the
    code `unreachable` where it can't be reached or breaks off within the limits.
    """

    def __init__(
        self, url: str, token: str, certificate: Path | None = None, limits: Limits | None = None
    ) -> None:
        self.url = checked_url(url)
        self._limits = limits or Limits()
        self._client = _client(self.url, token, certificate)

    def __repr__(self) -> str:
        return f"Web({self.url!r})"

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()

    def get(
        self, path: str, params: Params | None = None, *, seconds: float | None = None
    ) -> Answer:
        """Read a resource, at most for so many seconds; tried twice where a connection broke."""
        try:
            return self._asked("GET", path, params=params, seconds=seconds)
        except _BrokenOff:
            pass  # by a server that was restarted, or tired of an idle connection
        return self._asked("GET", path, params=params, seconds=seconds)

    def put(
        self, path: str, document: Any, headers: Mapping[str, str] | None = None,
        *, seconds: float | None = None,
    ) -> Answer:  # fmt: skip
        """Make a resource what the document says."""
        return self._asked("PUT", path, document=document, headers=headers, seconds=seconds)

    def post(
        self, path: str, document: Any, headers: Mapping[str, str] | None = None,
        *, seconds: float | None = None,
    ) -> Answer:  # fmt: skip
        """Have something done with a document."""
        return self._asked("POST", path, document=document, headers=headers, seconds=seconds)

    def delete(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Have a resource removed."""
        return self._asked("DELETE", path, headers=headers)

    def has(self, path: str) -> bool:
        """Return whether something is at a path."""
        with self._opened("GET", path, limit=self._limits.answer) as response:
            if response.status_code == 404:
                return False
            self._accepted(response, time.monotonic() + self._limits.answer)
            return True

    def upload(self, path: str, content: Path | bytes) -> Answer:
        """Send a file or bytes, piece by piece."""
        with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            pieces = iter(lambda: opened.read(_PIECE), b"")
            with self._opened("PUT", path, headers=headers, content=pieces) as response:
                return self._answer(response, time.monotonic() + self._limits.answer)

    def pieces(self, path: str) -> Iterator[bytes]:
        """Give what is at a path piece by piece; to be read to its end or closed."""
        with self._opened("GET", path) as response:
            self._accepted(response, time.monotonic() + self._limits.answer)
            with self._reached():
                yield from response.iter_raw(_PIECE)

    def stream_to(self, path: str, target: Path) -> None:
        """Write what is at a path into a file; the file is there whole or not at all."""
        fresh = target.with_name(f"{target.name}.part")
        try:
            with fresh.open("wb") as file:
                for piece in self.pieces(path):
                    file.write(piece)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)

    def events(
        self,
        path: str,
        params: Params | None = None,
        last: str | int | None = None,
        told: Callable[[OperationFailed], object] = lambda _: None,
    ) -> Iterator[Event]:
        """Give the events of a stream, data as JSON says it, without end.

        A stream that breaks is taken up behind the last event, after a wait that grows; `told`
        hears of it. Raises where the first connection can't be made, and for what is refused.
        """
        last = None if last is None else str(last)
        wait, begun = self._limits.again[0], False
        while True:
            failure = OperationFailed("ended", f"{self.url} ended the stream", transient=True)
            try:
                for event, identity, data in self._stream(path, params, last):
                    begun, wait = True, self._limits.again[0]
                    last = identity or last
                    if event:
                        yield event, identity, data
            except OperationFailed as found:
                if not (begun and found.transient):
                    raise
                failure = found
            told(failure)
            time.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 - no secret depends on it
            wait = min(wait * 2, self._limits.again[1])

    def _stream(self, path: str, params: Params | None, last: str | None) -> Iterator[Event]:
        """The events of one connection, after one without a name: that it is made."""
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        decoder = Decoder()
        with self._opened("GET", path, params=params, headers=headers) as response:
            self._accepted(response, time.monotonic() + self._limits.answer)
            yield "", None, None
            with self._reached():
                for piece in response.iter_raw():
                    for event, identity, data in decoder.feed(piece):
                        yield event, identity, _json(data.encode())

    def _asked(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Answer:
        limit = self._limits.answer if seconds is None else seconds
        until = time.monotonic() + limit
        sent = dict(headers or {})
        content = None
        if document is not None:
            content = json.dumps(document, ensure_ascii=False).encode()
            sent.setdefault("Content-Type", "application/json")
        with self._opened(
            method, path, params=params, headers=sent, content=content, limit=limit
        ) as response:
            return self._answer(response, until)

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterator[bytes] | None = None,
        limit: float | None = None,
    ) -> Iterator[httpx.Response]:
        """An answer of which only the head was read."""
        import httpx  # noqa: PLC0415 - commands that ask nobody start sooner without it

        silence = self._limits.silence if limit is None else limit
        asked = self._client.build_request(
            method,
            f"{self.url}{API}{path}",
            params={name: value for name, value in (params or {}).items() if value is not None},
            headers=headers,
            content=content,
            timeout=httpx.Timeout(silence, connect=min(self._limits.connect, silence)),
        )
        with self._reached():
            response = self._client.send(asked, stream=True)
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Say what is wrong with the connection, in our words."""
        import httpx  # noqa: PLC0415

        try:
            yield
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            reason = str(error) or "the connection was reset"
            raise _BrokenOff(
                "unreachable", f"{self.url} broke off: {reason}", _WAY, transient=True
            ) from error
        except httpx.TimeoutException as error:
            raise OperationFailed(
                "unreachable", f"{self.url} does not answer in time", _WAY, transient=True
            ) from error
        except httpx.TransportError as error:
            raise _unreached(self.url, error) from error
        except RuntimeError as error:  # httpx's word for a client that was closed
            if not self._client.is_closed:
                raise
            raise OperationFailed("closed", f"the way to {self.url} was closed") from error

    def _accepted(self, response: httpx.Response, until: float) -> None:
        """Raise what the coordinator says against it, if it does."""
        if 200 <= response.status_code < 300:
            return
        if 300 <= response.status_code < 400:
            raise OperationFailed(
                "moved",
                f"{self.url} answers that it is elsewhere: {response.headers.get('location', '')}",
                f"give the coordinator's own address: {_OPTION}",
            )
        kind = response.headers.get("content-type", "")
        content = self._read(response, until)
        found: Any = {}
        if "json" in kind:
            found = _json(content)
        document = found if isinstance(found, dict) else {}
        reason = f"{self.url} answered {response.status_code} {response.reason_phrase}".rstrip()
        raise Refused(response.status_code, document, reason)

    def _answer(self, response: httpx.Response, until: float) -> Answer:
        self._accepted(response, until)
        content = self._read(response, until)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, _json(content) if content else None, headers)

    def _read(self, response: httpx.Response, until: float) -> bytes:
        """All of an answer, if it comes in time: bytes that drip in don't put the limit off."""
        found = bytearray()
        with self._reached():
            for piece in response.iter_raw():
                found += piece
                if time.monotonic() > until:
                    raise OperationFailed(
                        "unreachable", f"{self.url} answers too slowly", _WAY, transient=True
                    )
                if len(found) > MOST_BYTES:
                    raise OperationFailed("too-large", f"{self.url} answers without end", _WAY)
        return bytes(found)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise no_coordinator() from None


def no_coordinator() -> OperationFailed:
    """Return that somebody else answers at the address."""
    return OperationFailed(
        "no-coordinator",
        "what answered there is no coordinator of Millrace",
        "give the coordinator's address: --server or MILLRACE_SERVER, or --join of an agent",
    )


def _client(url: str, token: str, certificate: Path | None) -> httpx.Client:
    import httpx  # noqa: PLC0415

    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OperationFailed(
            "bad-token", "that is no token", "give the file that it was written to: --token-file"
        )
    return httpx.Client(
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        },
        verify=trusted(url, certificate),
        follow_redirects=False,  # another host would be given the token
        trust_env=False,  # and so would a proxy, of which a coordinator's address knows nothing
    )


def _unreached(url: str, error: Exception) -> OperationFailed:
    """A connection that can't be made or kept, or that must not be."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return OperationFailed(
            "untrusted",
            f"{url} shows a certificate that is not trusted: {cause.verify_message}",
            "name the certificate to trust: --certificate, or MILLRACE_CERTIFICATE",
        )
    reason = str(error) or type(error).__name__
    return OperationFailed("unreachable", f"{url} can't be reached: {reason}", _WAY, transient=True)
