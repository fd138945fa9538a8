"""Lists that go on: redrawn on a terminal, told change by change elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live

from millrace.cli.form import Form, show_data, show_table
from millrace.cli.output import say
from millrace.cli.views.listing import LISTINGS, rows, table, table_of
from millrace.errors import OperationFailed

_SECONDS = 1.0
Items = list[dict[str, Any]]


def watched(fetch: Callable[[], Items], kind: str, output: Form) -> None:
    """Show a list until Ctrl-C; a coordinator that is away for a while is waited for."""
    items = fetch()
    if not items:
        say(LISTINGS[kind].empty)
    console = Console(highlight=False)
    if output is Form.TABLE and console.is_terminal:
        with Live(table(kind, items, time.time()), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(_SECONDS)
                items = _again(fetch, items)
                live.update(table(kind, items, time.time()), refresh=True)
    known: dict[str, Any] = {}
    first = True
    while True:
        known = _told(kind, items, known, output, header=first)
        first = False
        time.sleep(_SECONDS)
        items = _again(fetch, items)


def _again(fetch: Callable[[], Items], items: Items) -> Items:
    """What there is now, or what there was where nobody answers."""
    try:
        return fetch()
    except OperationFailed as failure:
        if not failure.transient:
            raise
        return items


def _told(
    kind: str, items: Items, known: dict[str, Any], output: Form, *, header: bool
) -> dict[str, Any]:
    """Print what is new or different; returns what is known now."""
    listing = LISTINGS[kind]
    named = {listing.name(item): item for item in items}
    fresh = [
        name
        for name, item in named.items()
        if _steady(kind, known.get(name)) != _steady(kind, item)
    ]
    if fresh and output is Form.TABLE:
        headers = [name for name, _ in listing.columns]
        made = table_of(headers, rows(kind, [named[name] for name in fresh], time.time()))
        made.show_header = header
        show_table(made)
    elif fresh and output is Form.JSON:  # a line for each, for who reads lines
        for name in fresh:
            sys.stdout.write(json.dumps(named[name], ensure_ascii=False) + "\n")
    elif fresh:
        if output is Form.YAML and not header:
            sys.stdout.write("---\n")
        show_data([named[name] for name in fresh], output, fresh)
    sys.stdout.flush()
    return named


def _steady(kind: str, item: dict[str, Any] | None) -> Any:
    """What of a thing makes a difference: not how long it was silent."""
    if item is None or kind != "sites":
        return item
    return {key: value for key, value in item.items() if key != "silent"}
