"""What is kept of keys, many to a page: each page is one value of Spark's state.

A value costs half a millisecond to ask for or to write, whatever its size, so a batch with a
million keys would take twenty minutes; a page holds about thirty of a million keys.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import orjson

#: Each is one call for a batch; more share the work among more tasks.
BUCKETS = 8
#: Of each bucket.
PAGES = 4096


def page_of(key: str) -> int:
    """Return the page of a key in its bucket, which is by the rest of the same number."""
    return zlib.crc32(key.encode()) // BUCKETS % PAGES


class Pages(MutableMapping[str, dict[str, Any]]):
    """Documents by key; `flush` writes the pages that changed."""

    def __init__(self, stored: MutableMapping[int, bytes]) -> None:
        self._stored = stored
        self._pages: dict[int, dict[str, Any]] = {}
        self._changed: set[int] = set()

    def _page(self, number: int) -> dict[str, Any]:
        page = self._pages.get(number)
        if page is None:
            data = self._stored.get(number)
            page = self._pages[number] = {} if data is None else orjson.loads(data)
        return page

    def __getitem__(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self._page(page_of(key))[key]
        return found

    def __setitem__(self, key: str, document: dict[str, Any]) -> None:
        number = page_of(key)
        self._page(number)[key] = document
        self._changed.add(number)

    def __delitem__(self, key: str) -> None:
        number = page_of(key)
        del self._page(number)[key]
        self._changed.add(number)

    def __iter__(self) -> Iterator[str]:
        for number in {*self._stored, *self._pages}:
            yield from self._page(number)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flush(self) -> None:
        """Write what changed; a page without keys goes."""
        for number in self._changed:
            if page := self._pages[number]:
                self._stored[number] = orjson.dumps(page)
            else:
                self._stored.pop(number, None)
        self._changed.clear()
        self._pages.clear()
