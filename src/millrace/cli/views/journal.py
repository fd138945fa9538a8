"""Entries of the journal, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from millrace.cli.views.ages import clock, plain

_STYLES = {"intent": "cyan", "result": "green"}


def entry_text(entry: Mapping[str, Any]) -> Text:
    """Return an entry in a line."""
    text = Text(f"{entry['number']:>6}  ", style="dim")
    text.append(f"{clock(entry['at'])}  ", style="dim")
    text.append(f"{entry['kind']:<6}  ", style=_STYLES.get(entry["kind"], ""))
    text.append(plain(entry["about"]), style="bold")
    for name, value in entry["detail"].items():
        if value not in (None, ""):
            text.append(f"  {plain(name)}: ", style="dim").append(plain(value))
    return text.append("\n")


def concerns(entry: Mapping[str, Any], pipeline: str | None) -> bool:
    """Return whether an entry is about a pipeline, its changes or its things; None is any."""
    if pipeline is None or entry["detail"].get("pipeline") == pipeline:
        return True
    kind, _, name = str(entry["about"]).partition(" ")
    if kind == "operation":
        return name.rpartition(".")[0] == pipeline
    if kind == "request":
        return f"{name}/".partition("/pipelines/")[2].startswith(f"{pipeline}/")
    return name == pipeline or name.startswith(f"{pipeline}/")
