"""Lists in pages: a cursor names the last thing of a page, and where it stood."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from millrace.api.problems import Problem

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item], frozen=True):
    """A part of a list; `next` is the cursor of the part behind it, null at the end."""

    items: Sequence[Item]
    next: str | None = Field(None, examples=["WzEsImEiXQ"])


class Asked(BaseModel, frozen=True):
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None

    def page(self, items: Sequence[Item], key: Callable[[Item], str]) -> Page[Item]:
        """Return the part of a list that begins behind the cursor's thing.

        Where that thing is gone, the part begins where it stood.
        """
        start = 0
        if self.cursor is not None:
            index, last = _decoded(self.cursor)
            if index < len(items) and key(items[index]) == last:
                start = index + 1
            else:
                names = [key(item) for item in items]
                start = names.index(last) + 1 if last in names else index
        part = items[start : start + self.limit]
        end = start + len(part)
        more = end < len(items) and bool(part)
        return Page(items=part, next=_encoded(end - 1, key(part[-1])) if more else None)


def _encoded(index: int, key: str) -> str:
    text = json.dumps([index, key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[int, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        index, key = found
        if type(index) is not int or index < 0 or not isinstance(key, str):
            raise ValueError(cursor)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise bad_cursor() from None
    return index, key


def bad_cursor() -> Problem:
    """Return what is told of a cursor that no list gave."""
    return Problem(
        400, "bad-cursor", "that is no cursor of a list", "send `next` of the page before, as it is"
    )


async def _asked(
    limit: Annotated[int, Query(ge=1, le=1000, description="The most items of a page.")] = 100,
    cursor: Annotated[
        str | None, Query(max_length=1000, description="`next` of the page before.")
    ] = None,
) -> Asked:
    return Asked(limit=limit, cursor=cursor)


#: The part of a list that a request asks for.
Paged = Annotated[Asked, Depends(_asked)]
