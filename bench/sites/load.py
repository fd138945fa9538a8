"""Clients of an API in a process of their own: requests at a steady rate, whatever they take.

Run as `python -m bench.sites.load HOME RATE SECONDS`. It prints "ready", begins with the next line
of its input, and then prints the milliseconds of each request from when it was meant to be sent.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench.sites.files import NAME
from millrace.client.settings import Settings

PAGE = 100
#: So many requests may be on their way at once.
CLIENTS = 24


class Visitor:
    """One connection that asks for pages of jobs, again and again."""

    def __init__(self, settings: Settings) -> None:
        where = urlsplit(settings.url)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {settings.token}"}

    def page(self, cursor: str | None) -> tuple[int, str | None]:
        """Return how many jobs a page has, and where the next one begins."""
        more = f"&cursor={quote(cursor)}" if cursor else ""
        path = f"/api/v1/pipelines/{NAME}/jobs?limit={PAGE}{more}"
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(found)
        return len(found["items"]), found["next"]


def cursors(visitor: Visitor) -> list[str | None]:
    """Return where each page begins."""
    found: list[str | None] = [None]
    while (following := visitor.page(found[-1])[1]) is not None:
        found.append(following)
    return found


def run(settings: Settings, rate: int, seconds: float) -> list[float]:
    """Ask for pages at a rate; the milliseconds of each request from when it was due."""
    visitors = [Visitor(settings) for _ in range(CLIENTS)]
    pages = cursors(visitors[0])
    for visitor in visitors:
        visitor.page(None)  # connected
    print("ready", flush=True)
    sys.stdin.readline()
    took: list[float] = []
    failures: list[str] = []
    turn, began = itertools.count(), time.perf_counter() + 0.1

    def ask(visitor: Visitor) -> None:
        while (number := next(turn)) < rate * seconds:
            due = began + number / rate
            time.sleep(max(due - time.perf_counter(), 0.0))
            try:
                visitor.page(pages[number % len(pages)])
            except Exception as error:  # told at the end: the others go on
                failures.append(repr(error))
            took.append((time.perf_counter() - due) * 1000)

    threads = [threading.Thread(target=ask, args=(visitor,)) for visitor in visitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(failures[:3])
    return took


def main() -> None:
    """Measure and print."""
    home, rate, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    print(json.dumps(run(Settings.local(home), rate, seconds)), flush=True)


if __name__ == "__main__":
    main()
