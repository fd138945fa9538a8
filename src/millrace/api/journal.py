"""The journal, as tokens may see it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from millrace.api.access import sees
from millrace.coordinator.revision import operation_parts
from millrace.coordinator.station import Station
from millrace.coordinator.tokens import Identity
from millrace.coordinator.views import EventView
from millrace.ports import Entry

_PATH = re.compile(r"request [A-Z]+ /api/v1/pipelines/([^/]+)(?:/.*)?")
#: So many lines are read at once, and so many times for one page.
_BATCH = 500
_ROUNDS = 20


def view_of(entry: Entry) -> EventView:
    """Return a line as it is shown."""
    return EventView(entry.number, entry.at, entry.kind.value, entry.about, dict(entry.detail))


def shown(who: Identity, about: str) -> bool:
    """Whether a token may see a line: one for some pipelines sees what is about those."""
    if who.pipelines is None:
        return True
    kind, _, name = about.partition(" ")
    if kind == "operation":
        parts = operation_parts(name)
        name = parts[0] if parts is not None else ""
    elif kind == "request":
        match = _PATH.fullmatch(about)
        name = match[1] if match is not None else ""
    elif kind != "pipeline":
        return False
    return sees(who, name)


def lines(station: Station, who: Identity, after: int, most: int) -> tuple[list[EventView], int]:
    """Return lines behind a number, and the number of the last one that was looked at."""
    store, found = station.coordinator.tenure.store, list[EventView]()
    for _ in range(_ROUNDS):
        entries: Sequence[Entry] = store.entries(after, min(_BATCH, most))
        for entry in entries:
            after = entry.number
            if shown(who, entry.about):
                found.append(view_of(entry))
            if len(found) >= most:
                return found, after
        if len(entries) < min(_BATCH, most):
            break
    return found, after
