"""A page about an experiment: what a paper's figure shows, and what was found here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from millrace.experiment.declaration import Declaration
from millrace.experiment.links import Link
from millrace.experiment.results import Result
from millrace.experiment.table import text_table


def page(
    declared: Declaration, results: Sequence[Result], findings: Sequence[str], picture: str | None
) -> str:
    """Return the page as Markdown."""
    parts = [f"# {declared.title}", declared.about]
    if declared.paper:
        parts += ["## The paper's figure", declared.paper]
    parts += ["## What was found here", *findings]
    if picture is not None:
        parts.append(f"![{declared.title}]({picture})")
    parts += ["```\n" + text_table(declared, results) + "```"]
    parts += ["## What is measured", _measures(declared)]
    parts += ["## How it was measured", _conditions(declared, results)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _measures(declared: Declaration) -> str:
    return "\n".join(
        f"- `{measure.name}`{f' ({measure.unit})' if measure.unit else ''}: {measure.means}"
        for measure in declared.measures
    )


def _conditions(declared: Declaration, results: Sequence[Result]) -> str:
    last = results[-1]
    machine = ", ".join(f"{name} {value}" for name, value in last.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in last.versions.items())
    failed = sum(bool(result.error) for result in results)
    lines = [
        f"- {len(results)} runs, {failed} of them failed, from {results[0].started} "
        f"to {last.started}",
        f"- machine: {machine}",
        f"- versions: {versions}",
        f"- command: `{shlex.join(last.command)}`",
    ]
    return "\n".join([*lines, *_links(declared, last.links)])


def _links(declared: Declaration, way: str) -> list[str]:
    """The links; those that are alike in one line."""
    alike: dict[tuple[float, float | None, float], list[Link]] = {}
    for link in declared.links:
        alike.setdefault((link.latency, link.bandwidth, link.loss), []).append(link)
    return [
        f"- links by {way or declared.way.value}: {', '.join(link.name for link in links)}: "
        f"{latency * 1000:g} ms one way"
        + (", or as the factor latency says" if "latency" in declared.matrix else "")
        + (f", {width * 8 / 1e6:g} Mbit/s" if width else "")
        + (f", {loss:.2%} lost" if loss else "")
        for (latency, width, loss), links in alike.items()
    ]
