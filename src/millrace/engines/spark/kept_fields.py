"""What a job's state is made of, written beside its checkpoint when it starts.

A new version of its code is held against it: one that could not read the state is refused before
Spark starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.ports import JobOrder

_FILE = "state.json"


def write_fields(place: Path, fields: Mapping[str, str]) -> None:
    """Note what the state of the job at a place is made of."""
    (place / _FILE).write_text(json.dumps(dict(fields)), encoding="utf-8")


def fields_before(place: Path) -> dict[str, str] | None:
    """Return what the state is made of that is there; None where there is none."""
    try:
        found: dict[str, str] = json.loads((place / _FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return found


def check_same(order: JobOrder, fields: Mapping[str, str] | None, way_out: str) -> None:
    """Refuse a query whose state would be made of something else than what is there."""
    before = fields_before(order.place)
    if before is None:
        return
    now = fields or {}
    found = [
        f"{name} was {before.get(name, 'not there')} and is {now.get(name, 'gone')} now"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    refuse(order, found, way_out)


def refuse(order: JobOrder, misfits: list[str], way_out: str) -> None:
    """Refuse code that can't go on with the state that is there, unless nothing is wrong."""
    if misfits:
        raise OperationFailed(
            "state-misfit",
            f"job {order.job.name}: the state it keeps does not fit its code: {'; '.join(misfits)}",
            f"{way_out}, or give the job another name to begin anew",
        )
