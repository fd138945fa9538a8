"""Reads declarations of experiments from YAML, and tells every problem at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed, Problems, nearest
from millrace.experiment.declaration import Declaration, Matrix, Measure, Quick, Value
from millrace.experiment.links import Link, Way
from millrace.experiment.links.link import bytes_a_second, seconds, share
from millrace.spec.node import plain
from millrace.spec.source import Source
from millrace.spec.yaml_reader import read_yaml

_FIELDS = frozenset(
    {
        "experiment", "of", "title", "about", "paper", "matrix", "setup", "repeats", "seed",
        "warmup", "links", "carried_by", "measures", "quick",
    }
)  # fmt: skip
_LINK_FIELDS = frozenset({"between", "among", "latency", "bandwidth", "loss"})
_QUICK_FIELDS = frozenset({"matrix", "repeats", "warmup"})


def read_declaration(path: Path) -> Declaration:
    """Return the declaration of a file; raises with all of its problems."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationFailed(
            "no-experiment", f"{path} can't be read: {error}", "millrace experiment list has names"
        ) from None
    return parsed(text, path.name)


def parsed(text: str, name: str) -> Declaration:
    """Return the declaration of a text; `name` is the file's, for messages."""
    problems = Problems()
    node = read_yaml(Source(name, text), problems)
    if node is None or not isinstance(node.value, dict):
        told = "; ".join(f"{item.at}: {item.message}" for item in problems) or "it is not a map"
        raise OperationFailed("bad-experiment", f"{name}: {told}", "see docs/experiments.md")
    return _Reader(plain(node), name).declaration()


class _Reader:
    """Turns plain data into a declaration, and collects what is wrong with it."""

    def __init__(self, document: Mapping[str, Any], file: str) -> None:
        self._document = document
        self._file = file
        self._wrong: list[str] = []

    def declaration(self) -> Declaration:
        known = self._document
        self._only(known, _FIELDS, "")
        name = known.get("experiment")
        if not isinstance(name, str) or not name:
            self._wrong.append("experiment: write its name")
            name = ""
        matrix = self._matrix(known.get("matrix"), "matrix")
        found = Declaration(
            name=name,
            of=self._text("of") or name,
            title=self._text("title") or name,
            about=self._text("about"),
            paper=self._text("paper"),
            matrix=matrix,
            setup=self._setup(matrix),
            repeats=self._count(known.get("repeats", 1), "repeats", 1),
            seed=self._count(known.get("seed", 1), "seed", 0),
            warmup=self._count(known.get("warmup", 0), "warmup", 0),
            links=self._links(),
            way=self._way(),
            measures=self._measures(),
            quick=self._quick(matrix),
        )
        if self._wrong:
            raise OperationFailed(
                "bad-experiment",
                f"{self._file}: " + "; ".join(self._wrong),
                "see docs/experiments.md",
            )
        return found

    def _only(self, given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
        for name in given:
            if name not in known:
                near = nearest(name, known)
                self._wrong.append(f"{where}{name} is not known" + (f": {near}?" if near else ""))

    def _text(self, name: str) -> str:
        value = self._document.get(name, "")
        if not isinstance(value, str):
            self._wrong.append(f"{name} is no text")
            return ""
        return value.strip()

    def _count(self, value: Any, where: str, least: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self._wrong.append(f"{where} is {value!r}: write a number from {least} on")
        return least

    def _map(self, value: Any, where: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self._wrong.append(f"{where} is no map")
        return {}

    def _matrix(self, value: Any, where: str) -> Matrix:
        found: dict[str, tuple[Value, ...]] = {}
        for factor, values in self._map(value, where).items():
            listed = values if isinstance(values, list) else [values]
            if not listed or not all(isinstance(one, str | int | float) for one in listed):
                self._wrong.append(f"{where}.{factor}: write values in a list")
                continue
            found[factor] = tuple(listed)
        return found

    def _setup(self, matrix: Matrix) -> tuple[str, ...]:
        value = self._document.get("setup", [])
        if not isinstance(value, list) or any(factor not in matrix for factor in value):
            self._wrong.append("setup: write a list of factors of the matrix")
            return ()
        return tuple(value)

    def _measures(self) -> tuple[Measure, ...]:
        found = []
        for name, value in self._map(self._document.get("measures"), "measures").items():
            told = self._map(value, f"measures.{name}")
            self._only(told, frozenset({"unit", "means"}), f"measures.{name}.")
            found.append(Measure(name, str(told.get("unit", "")), str(told.get("means", ""))))
        if not found:
            self._wrong.append("measures: write what is measured")
        return tuple(found)

    def _quick(self, matrix: Matrix) -> Quick:
        told = self._map(self._document.get("quick"), "quick")
        self._only(told, _QUICK_FIELDS, "quick.")
        other = self._matrix(told.get("matrix"), "quick.matrix")
        self._only(other, frozenset(matrix), "quick.matrix.")
        repeats = self._count(told["repeats"], "quick.repeats", 1) if "repeats" in told else None
        warmup = self._count(told["warmup"], "quick.warmup", 0) if "warmup" in told else None
        return Quick(other, repeats, warmup)

    def _way(self) -> Way:
        value = self._document.get("carried_by", Way.PROXY.value)
        try:
            return Way(value)
        except ValueError:
            ways = " or ".join(way.value for way in Way)
            self._wrong.append(f"carried_by is {value!r}: write {ways}")
            return Way.PROXY

    def _links(self) -> tuple[Link, ...]:
        found: list[Link] = []
        for name, value in self._map(self._document.get("links"), "links").items():
            found += self._link(name, self._map(value, f"links.{name}"))
        return tuple(found)

    def _link(self, name: str, told: Mapping[str, Any]) -> list[Link]:
        """The link of two sites, or those of all pairs of sites from different groups."""
        where = f"links.{name}"
        self._only(told, _LINK_FIELDS, f"{where}.")
        latency = self._read(lambda: seconds(told.get("latency", "0 ms"), f"{where}.latency"))
        width = self._read(lambda: bytes_a_second(told.get("bandwidth"), f"{where}.bandwidth"))
        loss = self._read(lambda: share(told.get("loss", 0), f"{where}.loss"))
        rest = (latency or 0.0, width, loss or 0.0)
        match told:
            case {"between": [str() as one, str() as other]} if one != other:
                return [Link(name, (one, other), *rest)]
            case {"among": [[*_], *_] as groups} if all(isinstance(g, list) for g in groups):
                pairs = [p for some in combinations(groups, 2) for p in product(*some)]
                return [Link(f"{name}-{a}-{b}", (a, b), *rest) for a, b in pairs]
        self._wrong.append(f"{where}: write between: [SITE, SITE] or among: [[SITE, ...], ...]")
        return []

    def _read(self, read: Callable[[], float | None]) -> float | None:
        try:
            return read()
        except OperationFailed as failure:
            self._wrong.append(f"{failure.message}: {failure.hint}")
            return None
