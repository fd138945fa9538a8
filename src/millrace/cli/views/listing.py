"""Lists of what a coordinator knows, as tables: which columns each kind has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from millrace.cli.views.ages import age, number, plain, span

Item = Mapping[str, Any]
Cell = Callable[[Item, float], str]
_COLOURS = {
    **dict.fromkeys(("running", "up", "done"), "green"),
    **dict.fromkeys(("starting", "changing", "examining", "undoing", "away", "unknown"), "yellow"),
    **dict.fromkeys(("failed", "failing", "stuck", "undone", "refused"), "red"),
    **dict.fromkeys(("stopped", "ended", "removed", "empty", "revoked", "expired"), "dim"),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """How a kind is listed: its columns, how a row is called, and what an empty list means."""

    columns: tuple[tuple[str, Cell], ...]
    name: Callable[[Item], str]
    empty: str


def _field(key: str) -> Cell:
    return lambda item, _: plain(item[key]) if item[key] not in (None, "") else "-"


def _several(key: str) -> Cell:
    return lambda item, _: ", ".join(map(plain, item[key])) or "-"


def _age(key: str) -> Cell:
    return lambda item, now: age(item[key], now)


def _lag(item: Item) -> str:
    return number(sum(item["lag"].values())) if item["lag"] else "-"


def _took(item: Item, now: float) -> str:
    return span(round((item["ended"] or now) - item["at"], 1)) if item["at"] else "-"


def _token_state(item: Item, now: float) -> str:
    if item["revoked"]:
        return "revoked"
    return "expired" if item["expires"] is not None and item["expires"] <= now else "valid"


def _expires(item: Item, now: float) -> str:
    expires = item["expires"]
    return "never" if expires is None else f"in {span(expires - now)}" if expires > now else "-"


def _jobs_of(item: Item, _: float) -> str:
    return f"{item['running']}/{item['jobs']}"


_BRING = "bring a pipeline: millrace apply -f pipeline.yaml"
LISTINGS: Mapping[str, Listing] = {
    "pipelines": Listing(
        (
            ("pipeline", _field("name")),
            ("state", _field("state")),
            ("revision", _field("current")),
            ("running", _jobs_of),
            ("sites", _several("sites")),
            ("last change", _field("operation")),
        ),
        lambda item: str(item["name"]),
        f"there is no pipeline yet; {_BRING}",
    ),
    "jobs": Listing(
        (
            ("job", lambda item, _: plain(f"{item['pipeline']}/{item['name']}")),
            ("state", _field("state")),
            ("site", _field("site")),
            ("kind", _field("kind")),
            ("mode", _field("mode")),
            ("rec/s", lambda item, _: number(item["rows_per_second"])),
            ("lag", lambda item, _: _lag(item)),
            ("last batch", _age("at")),
            ("error", _field("error")),
        ),
        lambda item: f"{item['pipeline']}/{item['name']}",
        f"there is no job; {_BRING}",
    ),
    "streams": Listing(
        (
            ("stream", lambda item, _: plain(f"{item['pipeline']}/{item['name']}")),
            ("ready", lambda item, _: "yes" if item["ready"] else "no"),
            ("site", _field("site")),
            ("format", _field("format")),
            ("partitions", _field("partitions")),
            ("topic", _field("address")),
            ("from", _several("writers")),
            ("to", _several("readers")),
        ),
        lambda item: f"{item['pipeline']}/{item['name']}",
        f"there is no stream; {_BRING}",
    ),
    "sites": Listing(
        (
            ("site", _field("name")),
            ("state", _field("state")),
            ("served", _field("served")),
            ("silent for", lambda item, _: span(item["silent"])),
            ("pipelines", _several("pipelines")),
            ("errors", _several("errors")),
        ),
        lambda item: str(item["name"]),
        f"there is no site: pipelines name them; {_BRING}",
    ),
    "operations": Listing(
        (
            ("operation", _field("id")),
            ("state", _field("state")),
            ("steps", lambda item, _: f"{item['done']}/{item['total']}" if item["total"] else "-"),
            ("age", _age("at")),
            ("took", _took),
            ("by", _field("by")),
            ("reason", _field("reason")),
        ),
        lambda item: str(item["id"]),
        f"nothing was changed yet; {_BRING}",
    ),
    "revisions": Listing(
        (
            ("revision", lambda item, _: plain(f"{item['pipeline']} {item['number']}")),
            ("in force", lambda item, _: "yes" if item["in_force"] else ""),
            ("state", lambda item, _: item["outcome"] or "running"),
            ("age", _age("at")),
            ("by", _field("by")),
            ("note", _field("note")),
            ("reason", _field("reason")),
        ),
        lambda item: str(item["number"]),
        f"there is no revision; {_BRING}",
    ),
    "tokens": Listing(
        (
            ("token", _field("id")),
            ("name", _field("name")),
            ("role", _field("role")),
            ("pipelines", lambda item, _: _scope(item["pipelines"])),
            ("site", _field("site")),
            ("expires", _expires),
            ("state", _token_state),
        ),
        lambda item: str(item["id"]),
        "there is no token; millrace token create NAME makes one",
    ),
}


def _scope(pipelines: Sequence[str] | None) -> str:
    return "all" if pipelines is None else ", ".join(map(plain, pipelines)) or "none"


def rows(kind: str, items: Iterable[Item], now: float) -> list[list[str]]:
    """Return the cells of a list, a row for each thing."""
    columns = LISTINGS[kind].columns
    return [[cell(item, now) for _, cell in columns] for item in items]


def table(kind: str, items: Iterable[Item], now: float) -> Table:
    """Return a list as a table; `now` is in seconds since the epoch."""
    return table_of([header for header, _ in LISTINGS[kind].columns], rows(kind, items, now))


def table_of(headers: Sequence[str], cells: Iterable[Sequence[str]]) -> Table:
    """Return cells as a table; words of state have their colours."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        right = header in ("rec/s", "lag", "partitions")
        made.add_column(header, overflow="fold", justify="right" if right else "left")
    for row in cells:
        made.add_row(*(_coloured(header, cell) for header, cell in zip(headers, row, strict=True)))
    return made


def _coloured(header: str, cell: str) -> Text:
    style = _COLOURS.get(cell, "") if header == "state" else "red" * (header.startswith("error"))
    return Text(cell, style=style)
