"""Where values came from, and what rates come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from millrace.model.text import written
from millrace.plan.diff import shown
from millrace.spec.balance import Balance
from millrace.spec.convert import FAILED, Origin


def origin_text(path: str, origin: Origin) -> Text:
    """Return a value, its place, and the values it hides."""
    text = Text(f"{path}", style="bold")
    text.append(f" = {_value(origin.value)}\n")
    if origin.node is None:
        known = origin.origin == "built-in"
        text.append(f"  {'built-in default' if known else origin.origin}\n", style="dim")
    else:
        where = f"from {origin.origin}" if origin.origin else "written there"
        text.append(f"  {where}: {origin.node.at}\n", style="dim")
        if isinstance(origin.node.value, str) and "${{" in origin.node.value:
            text.append(f"  as {origin.node.value}\n", style="dim")
    for layer in origin.overridden:
        text.append(
            f"  instead of {layer.node.describe()} from {layer.origin}: {layer.node.at}\n",
            style="dim",
        )
    return text


def origin_document(path: str, origin: Origin) -> dict[str, Any]:
    """Return the same as data."""
    document: dict[str, Any] = {
        "path": path,
        "value": _plain(origin.value),
        "origin": origin.origin or "item",
    }
    if origin.node is not None:
        document["location"] = str(origin.node.at)
    if origin.overridden:
        document["instead_of"] = [
            {"origin": layer.origin, "location": str(layer.node.at)} for layer in origin.overridden
        ]
    return document


def _plain(value: Any) -> Any:
    return None if value is None or value is FAILED else written(value)


def _value(value: Any) -> str:
    return "(none)" if value is FAILED else shown(value)


def balance_text(balance: Balance) -> Text:
    """Return firings per round and buffers that suffice, or nothing where no rates are given."""
    text = Text()
    if balance.firings:
        text.append(f"Rates balance: firings in a round: {_pairs(balance.firings)}.\n")
    if balance.buffers:
        text.append(f"Buffers that suffice, in records: {_pairs(balance.buffers)}.\n")
    return text


def _pairs(numbers: Mapping[str, int]) -> str:
    first = [f"{name} {number}" for name, number in list(numbers.items())[:20]]
    return ", ".join([*first, *(["..."] if len(numbers) > 20 else [])])
