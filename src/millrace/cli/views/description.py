"""One thing that a coordinator knows, told in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from millrace.cli.views.ages import age, clock, number, plain, span

View = Mapping[str, Any]
Row = tuple[str, str]


def described(kind: str, view: View, now: float) -> Text:
    """Return a thing for people; what it does not have is left out."""
    rows = [(label, value) for label, value in _ROWS[kind](view, now) if value not in ("", "-")]
    width = max(len(label) for label, _ in rows)
    text = Text()
    for number_, (label, value) in enumerate(rows):
        style = "bold" if number_ == 0 else "red" if label == "error" else ""
        text.append(f"{label:<{width}}  ", style="dim").append(f"{value}\n", style=style)
    return text


def steps_text(view: View) -> Text:
    """Return the steps of a change: how far each is, and how long its job stood still."""
    text = Text()
    for step in view["steps"]:
        text.append(f"  {step['state']:<8} {plain(step['id'])}", style=_DONE.get(step["state"], ""))
        text.append(f"  at {plain(step['place'])}", style="dim")
        if step["measured"] is not None:
            text.append(f"  stood still for {span(round(step['measured'], 1))}")
        if step["foreseen"]:
            text.append(f"  (foreseen {span(step['foreseen'])})", style="dim")
        text.append("\n")
    for note in view["notes"]:
        text.append(f"Note: {plain(note)}\n")
    return text


_DONE = {"done": "green", "ordered": "yellow"}


def _pipeline(view: View, _: float) -> Iterator[Row]:
    yield "pipeline", plain(view["name"])
    yield "description", plain(view["description"])
    yield "state", view["state"]
    yield "revision", f"{view['current']} in force, {view['revision']} is the newest"
    yield "jobs", f"{view['running']} of {view['jobs']} run"
    yield "sites", _joined(view["sites"])
    yield "last change", plain(view["operation"] or "")


def _job(view: View, now: float) -> Iterator[Row]:
    yield "job", plain(f"{view['pipeline']}/{view['name']}")
    yield "state", view["state"]
    yield "error", plain(view["error"])
    yield "way out", plain(view["hint"])
    yield "site", plain(view["site"])
    yield "kind", view["kind"]
    yield "from", _joined(view["reads"])
    yield "to", _joined(view["writes"])
    yield "query", plain(view["query"])
    yield "mode", view["mode"] or "-"
    yield "revision", f"{view['revision']}, start {view['generation']}"
    yield "run", plain(view["run"])
    yield "rate", f"{number(view['rows_per_second'])} records/s"
    yield "last batch", _batch(view, now)
    yield "lag", ", ".join(f"{plain(name)} {number(lag)}" for name, lag in view["lag"].items())
    for name, counts in view.get("received", {}).items():
        yield f"received of {plain(name)}", _counts(counts)
    yield "ledger", _ledger(view["fates"])


def _counts(counts: View) -> str:
    """What a receiver counted; none of a kind is worth no word."""
    every = (f"{number(n)} {plain(what).replace('_', ' ')}" for what, n in counts.items() if n)
    return ", ".join(every) or "nothing yet"


def _batch(view: View, now: float) -> str:
    return f"{view['batch']}, {age(view['at'], now)} ago" if view["at"] else "none yet"


def _ledger(fates: View) -> str:
    parts = [f"{fates['used']} used"]
    names = ("filtered", "malformed", "late", "dropped")
    parts += [f"{fates[name]} {name}" for name in names if fates[name]]
    if fates["lost_sight"]:
        parts.append(f"{fates['lost_sight']} of unknown fate")
    written = ", ".join(f"{count} to {plain(name)}" for name, count in fates["written"].items())
    return f"{fates['read']} read: {', '.join(parts)}" + (f"; wrote {written}" if written else "")


def _stream(view: View, _: float) -> Iterator[Row]:
    yield "stream", plain(f"{view['pipeline']}/{view['name']}")
    yield "ready", "yes" if view["ready"] else "no"
    yield "site", plain(view["site"])
    yield "topic", plain(view["address"] or "none: it is inside a query")
    yield "partitions", str(view["partitions"])
    yield "format", view["format"]
    yield "written by", _joined(view["writers"])
    yield "read by", _joined(view["readers"])


def _site(view: View, _: float) -> Iterator[Row]:
    yield "site", plain(view["name"])
    yield "state", view["state"]
    yield "served", view["served"]
    yield "silent for", span(view["silent"])
    yield "pipelines", _joined(view["pipelines"])
    yield "brokers", _joined(f"{name}: {place}" for name, place in view["brokers"].items())
    yield "error", "; ".join(plain(error) for error in view["errors"])


def _operation(view: View, now: float) -> Iterator[Row]:
    yield "operation", plain(view["id"])
    yield "pipeline", plain(view["pipeline"])
    yield "state", view["state"]
    yield "error", plain(view["reason"])
    yield "revision", f"{view['before']} -> {view['wanted']}"
    yield "by", plain(view["by"])
    yield "begun", f"{clock(view['at'])}, {age(view['at'], now)} ago" if view["at"] else "-"
    yield "took", span(round(view["ended"] - view["at"], 1)) if view["ended"] else "-"
    yield "steps", f"{view['done']} of {view['total']} done" if view["total"] else ""
    yield "untouched", f"{view['untouched']} jobs" if view["untouched"] else ""


_ROWS = {
    "pipeline": _pipeline,
    "job": _job,
    "stream": _stream,
    "site": _site,
    "operation": _operation,
}


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(plain(text) for text in texts)
