"""Pipelines drawn at random, with what they must give: worked out in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
#: How a pipeline is run: what its streams and jobs say beside their work.
VARIANTS = {
    "fused": ("true", "auto"),
    "apart": ("false", "micro-batch"),
    "real-time": ("false", "real-time"),
    "fused real-time": ("true", "real-time"),
    "drained": ("true", "drain"),
}
CODE = """
def twice(record):
    return [record, {**record, "v": record["v"] + 1}] if record["v"] % 2 else [record]

def few(record):
    return record if record["id"] % 3 else None

def fails(record):
    if record["v"] == 7:
        raise ValueError("seven")
    return record

def halves(rows):
    return rows.where("id % 2 = 0"), rows.where("id % 2 = 1")
"""


@dataclass(slots=True)
class Drawn:
    """A pipeline as text and as functions: jobs in the direction of the data."""

    #: Whether a plain Python function is among its jobs, which real-time mode can't have.
    python: bool = False
    #: The streams that are counted in windows: with dead letters such a query needs batches.
    counted: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    #: By stream, what is in it for the records of `raw`.
    rows: dict[str, Callable[[list[Row]], list[Row]]] = field(default_factory=dict)
    leaves: list[str] = field(default_factory=list)

    def text(self, variant: str) -> str:
        """Return the pipeline's file, to be run in one of the ways."""
        transient, mode = VARIANTS[variant]
        schema = "schema: {id: int, k: string, v: int, at: timestamp}"
        counts = "schema: {start: timestamp, end: timestamp, k: string, v: long}"
        kinds = {name: "false" if name in self.leaves else transient for name in self.rows}
        streams = [
            f"  {name}: {{{counts if name.endswith('n') else schema}, transient: {kind}, "
            "key: k, partitions: 2}"
            for name, kind in kinds.items()
            if name != "raw"
        ]
        return "\n".join(
            [
                f"defaults: {{jobs: {{mode: {mode}, checkpoint: 5 s, emit: updates}}}}",
                "streams:",
                f"  raw: {{{schema}, partitions: 2, dead_letters: dead}}",
                "  dead: {format: raw}",
                *streams,
                "jobs:",
                *self.jobs,
            ]
        )

    def may(self, variant: str) -> bool:
        """Whether it can be run so."""
        if "real-time" not in variant:
            return True
        return not self.python and not (self.counted if "fused" in variant else self.raw_counted)

    @property
    def raw_counted(self) -> bool:
        """Whether records of the input itself are counted."""
        return "raw" in self.counted

    def wanted(self, records: list[Row]) -> dict[str, Counter[Any]]:
        """Return what each stream at the end must hold."""
        return {
            name: Counter((row["id"], row["k"], row["v"]) for row in self.rows[name](records))
            for name in self.leaves
        }


def drawn(chance: random.Random) -> Drawn:
    """Return a pipeline; the same for the same choices."""
    found = Drawn(rows={"raw": list})
    open_streams = ["raw"]
    for number in range(chance.randint(2, 5)):
        goes_on = [at for at, name in enumerate(open_streams) if not name.endswith("n")]
        if not goes_on:
            break
        above = open_streams.pop(chance.choice(goes_on))
        open_streams += _job(found, chance, number, above)
    found.leaves = open_streams
    return found


def _job(found: Drawn, chance: random.Random, number: int, above: str) -> list[str]:
    """Add a job over a stream; return the streams that it writes."""
    kind = chance.choice(["filter", "project", "map", "split", "drop", "count"])
    out, a, b = f"s{number}", chance.randint(2, 5), chance.randint(0, 3)
    before = found.rows[above]
    name = f"  j{number}: {{from: {{stream: {above}, as: rows}}, to: "
    if kind == "split":
        outs = [f"{out}a", f"{out}b"]
        found.jobs.append(f'{name}[{", ".join(outs)}], python: "code:halves"}}')
        for part, stream in enumerate(outs):
            found.rows[stream] = _over(before, _half(part))
        return outs
    if kind == "count":
        found.counted.append(above)
        window = "window: {of: 1 min, by: at, per: k, lateness: 1 h}"
        found.jobs.append(f"{name}{out}n, {window}, aggregate: {{v: count(*)}}}}")
        found.rows[f"{out}n"] = _counted(before)
        return [f"{out}n"]
    if kind in ("map", "drop"):
        found.python = True
        function = chance.choice(["twice", "few"]) if kind == "map" else "fails"
        found.jobs.append(f'{name}{out}, map: "code:{function}"}}')
        found.rows[out] = _over(before, _FUNCTIONS[function])
        return [out]
    if kind == "filter":
        sql = f"SELECT * FROM rows WHERE v % {a} <> {b}"  # noqa: S608
        found.rows[out] = _over(before, lambda r: [r] if r["v"] % a != b else [])
    else:
        sql = f"SELECT id, k, v + {a} AS v, at FROM rows"  # noqa: S608
        found.rows[out] = _over(before, lambda r: [{**r, "v": r["v"] + a}])
    found.jobs.append(f'{name}{out}, sql: "{sql}"}}')
    return [out]


def _counted(before: Callable[[list[Row]], list[Row]]) -> Callable[[list[Row]], list[Row]]:
    """Rows of each minute and key; `id` is the minute."""

    def counted(records: list[Row]) -> list[Row]:
        counts = Counter((row["id"] // 60, row["k"]) for row in before(records))
        return [{"id": minute, "k": k, "v": n} for (minute, k), n in counts.items()]

    return counted


def _half(part: int) -> Callable[[Row], list[Row]]:
    return lambda row: [row] if row["id"] % 2 == part else []


def _over(
    before: Callable[[list[Row]], list[Row]], each: Callable[[Row], list[Row]]
) -> Callable[[list[Row]], list[Row]]:
    return lambda records: [made for row in before(records) for made in each(row)]


_FUNCTIONS: dict[str, Callable[[Row], list[Row]]] = {
    "twice": lambda r: [r, {**r, "v": r["v"] + 1}] if r["v"] % 2 else [r],
    "few": lambda r: [r] if r["id"] % 3 else [],
    "fails": lambda r: [] if r["v"] == 7 else [r],
}
