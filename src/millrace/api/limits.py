"""What a request may be and take: bytes of a body, depth of JSON, waits of one token."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from fastapi import Request
from starlette.requests import ClientDisconnect

from millrace.api.problems import Problem

#: Half of a character outside the first 65,536, as JSON may write it down.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")

_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers."""

    #: Bytes of a body; artifacts have a limit of their own.
    body: int = 10 << 20
    #: Bytes of an artifact of a person's; what sites hand over may be larger.
    code: int = 512 << 20
    #: Lists and objects inside each other.
    depth: int = 64
    #: Long polls and event streams of one token at once.
    waits: int = 64
    #: Seconds that a sender may be silent within a body, and a reader within a stream.
    silent_seconds: float = 30.0
    slow_seconds: float = 10.0
    #: Seconds between comments on an event stream.
    alive_seconds: float = 10.0
    #: Threads for what waits for sites, for uploads, and for short looks of those who wait.
    questions: int = 16
    uploads: int = 8
    looks: int = 8
    #: Lines of an hour's journal for what was refused to one token.
    refusals: int = 60


@dataclass(slots=True)
class _Hour:
    """The refusals of a token since some moment: those that were told, and those that were not."""

    begun: float
    told: int = 0
    left_out: int = 0


@dataclass(slots=True)
class Refusals:
    """How many refusals of each token the journal is told of; called in the event loop only.

    Who may do nothing could else fill the coordinator's disk with what was refused.
    """

    most: int
    _hours: dict[str, _Hour] = field(default_factory=dict)

    def left_out(self, token: str, now: float) -> int | None:
        """Return how many were left out before this one; None where this one is to be, too."""
        hour = self._hours.setdefault(token, _Hour(now))
        if now - hour.begun >= _HOUR_SECONDS:
            hour.begun, hour.told = now, 0
        if hour.told >= self.most:
            hour.left_out += 1
            return None
        hour.told += 1
        before, hour.left_out = hour.left_out, 0
        return before


@dataclass(slots=True)
class Waits:
    """How many requests of each token wait; called in the event loop only."""

    most: int
    _held: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def held(self, token: str) -> Iterator[None]:
        """Count one for as long as this lasts; raises where there are enough."""
        if self._held[token] >= self.most:
            raise Problem(
                429,
                "too-many-waits",
                f"{self.most} requests of this token wait already",
                "end some of them, or use another token",
                headers={"Retry-After": "5"},
            )
        self._held[token] += 1
        try:
            yield
        finally:
            self._held[token] -= 1
            if not self._held[token]:
                del self._held[token]


async def pieces(request: Request, most: int, silent: float) -> AsyncIterator[bytes]:
    """Give a body piece by piece; raises for one that is too large, stands still or breaks off."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise too_large(most)
    size, stream = 0, request.stream()
    while True:
        try:
            with anyio.fail_after(silent):
                piece = await anext(stream, None)
        except TimeoutError:
            raise Problem(
                408, "too-slow", f"nothing of the body came for {silent:.0f} s", "send it again"
            ) from None
        except ClientDisconnect:
            raise Problem(400, "cut", "the body broke off", "send it again") from None
        if piece is None:
            return
        size += len(piece)
        if size > most:
            raise too_large(most)
        if piece:
            yield piece


def too_large(most: int) -> Problem:
    """Return what is told of a body that is too large."""
    return Problem(
        413,
        "too-large",
        f"a body may have {most:,} bytes here",
        "send less at once; code and data go to /api/v1/artifacts/DIGEST",
        headers={"Connection": "close"},
    )


async def body_of(request: Request, limits: Limits) -> bytes:
    """Return a whole body."""
    return b"".join([piece async for piece in pieces(request, limits.body, limits.silent_seconds)])


def parsed(data: bytes, depth: int) -> Any:
    """Return what a body of JSON says; raises 400 for what is none, and for what is too deep."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refused)
        if _HALF.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        where = f"body:{error.lineno}:{error.colno}"
        raise _bad(f"the body is no JSON: {error.msg}", location=where) from None
    except RecursionError:
        raise _bad(f"the body is nested more than {depth} deep") from None
    except ValueError:  # of a character that is none, and of a number with thousands of digits
        raise _bad("the body is no JSON in UTF-8") from None
    if _deeper(value, depth):
        raise _bad(f"the body is nested more than {depth} deep")
    return value


def _refused(word: str) -> None:
    raise ValueError(word)


def _deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            item
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _bad(detail: str, **more: Any) -> Problem:
    return Problem(400, "bad-json", detail, "send JSON in UTF-8", **more)
