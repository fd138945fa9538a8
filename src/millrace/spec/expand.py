"""From a document to its things: constants worked out, repetition unrolled, layers in order."""

from __future__ import annotations

import graphlib
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from millrace.errors import Location, Problems
from millrace.model.types import NAME, NAME_EXPECTED
from millrace.spec.document import SECTIONS, Document, Entry, Layer
from millrace.spec.evaluate import Scope, Values, uses
from millrace.spec.expression import ExpressionError
from millrace.spec.node import Node

MOST_ITEMS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Item:
    """A thing with its final name: the layers that answer for its fields, nearest first."""

    section: str
    name: str
    at: Location
    layers: tuple[Layer, ...]
    scope: Scope

    def locate(self, *path: str | int) -> Location:
        """Return the nearest place of a field (or of a part of it)."""
        for layer in self.layers:
            node, found = layer.node, False
            for step in path:
                below = _below(node, step)
                if below is None:
                    break  # a short form: the value itself stands for its field
                node, found = below, True
            if found:
                return node.at
        return self.at


def _below(node: Node | None, step: str | int) -> Node | None:
    if node is None:
        return None
    if isinstance(step, str):
        return node.map.get(step)
    if isinstance(node.value, list):
        return node.value[step] if step < len(node.value) else None
    return node if step == 0 else None


Items = dict[str, dict[str, Item]]


def constants_of(document: Document, values: Values, problems: Problems) -> Scope:
    """Work the constants out, each after those it uses."""
    names = document.constants
    graph = {name: uses(node) & names.keys() for name, node in names.items()}
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        cycle = error.args[1]
        problems.error(
            "constant-cycle",
            "these constants need each other: " + " -> ".join(reversed(cycle[:8])),
            names[cycle[0]].at,
            hint="give one of them a value of its own",
        )
        return Scope()
    known: dict[str, Any] = {}
    for name in order:
        known[name] = values.deep(names[name], Scope(known))
    return Scope(known)


@dataclass(slots=True)
class Expander:
    """Unrolls `for`, names things and puts their layers in order."""

    document: Document
    values: Values
    problems: Problems
    scope: Scope
    counts: Counter[str] = field(default_factory=Counter)
    items: Items = field(default_factory=lambda: {section: {} for section in SECTIONS})

    def expand(self) -> Items:
        """Return every thing of every section under its final name."""
        for section in SECTIONS:
            for entry in self.document.entries[section].values():
                if not self._entry(section, entry):
                    return self.items
        return self.items

    def _entry(self, section: str, entry: Entry) -> bool:
        """Add an entry's items; False when there are too many to go on."""
        node = entry.node
        if node.value is None:
            node = node.like({})
        if not isinstance(node.value, dict):
            self.problems.error(
                "wrong-type",
                f"{entry.name!r} of {section} must be a map",
                node.at,
                found=node.describe(),
                expected="a map (key: value)",
            )
            return True
        lists = self._lists(node.map.get("for"))
        if lists is None:
            return True
        self.counts[section] += math.prod(len(values) for values in lists.values())
        if self.counts[section] > MOST_ITEMS:
            self.problems.error(
                "too-many",
                f"more than {MOST_ITEMS:,} {section}",
                entry.at,
                hint="shorten the lists that `for` goes over",
            )
            return False
        for combination in itertools.product(*lists.values()):
            names = dict(zip(lists, combination, strict=True))
            self._item(section, entry, node, self.scope.with_names(names))
        return True

    def _item(self, section: str, entry: Entry, node: Node, scope: Scope) -> None:
        here = Node(entry.name, entry.at.file, entry.at.line, entry.at.column)
        name = self.values.text(entry.name, here, scope)
        if name is None:
            return
        if not NAME.fullmatch(name):
            self.problems.error(
                "bad-name",
                f"{name!r} can't be a name",
                entry.at,
                expected=NAME_EXPECTED,
                hint="rename it",
            )
            return
        if name in self.items[section]:
            self.problems.error(
                "declared-twice",
                f"{name!r} of {section} is declared twice",
                entry.at,
                hint="with `for`, the name must hold each variable: name-${{ variable }}",
            )
            return
        layers = self._layers(section, node, scope)
        self.items[section][name] = Item(section, name, entry.at, layers, scope)

    def _layers(self, section: str, node: Node, scope: Scope) -> tuple[Layer, ...]:
        own = Layer(node, "")
        defaults = self.document.defaults[section]
        if section not in ("streams", "jobs") or not self.document.groups:
            return (own, *defaults)
        for layer in (own, *defaults):
            named = layer.node.map.get("group")
            if named is None:
                continue
            group = self.values.of(named, scope)
            if group is not None and isinstance(group.value, str):
                layers = self.document.groups.get(group.value, {}).get(section, [])
                return (own, *layers, *defaults)
        return (own, *defaults)

    def _lists(self, repeated: Node | None) -> dict[str, list[Any]] | None:
        """The variables of `for` with the values they go over; None after a problem."""
        if repeated is None:
            return {}
        if not isinstance(repeated.value, dict) or not repeated.value:
            self.problems.error(
                "wrong-type",
                "`for` takes variables and their lists",
                repeated.at,
                found=repeated.describe(),
                expected="{edge: [north, south]}",
            )
            return None
        lists: dict[str, list[Any]] = {}
        for name, node in repeated.value.items():
            if not name.isidentifier() or not name.isascii():
                self.problems.error(
                    "bad-name",
                    f"{name!r} can't be a variable",
                    repeated.key_at(name),
                    expected="a word such as edge",
                )
                return None
            listed = self.values.deep(node, self.scope)
            if not isinstance(listed, list):
                self.problems.error(
                    "wrong-type",
                    f"`for` needs a list for {name!r}",
                    node.at,
                    found=node.describe(),
                    expected="a list, or range(n)",
                )
                return None
            lists[name] = listed
        return lists


def lookup_in(items: Items, values: Values, default: Any) -> Any:
    """Return the function that finds `streams.NAME.key` for expressions."""

    def lookup(section: str, name: str, keys: tuple[str, ...]) -> Any:
        item = items[section].get(name)
        if item is None:
            message = f"there is no {name!r} under {section}"
            raise ExpressionError(message, hint=f"known: {', '.join(list(items[section])[:8])}")
        if not keys:
            return name
        for layer in item.layers:
            node: Node | None = layer.node
            for key in keys:
                node = _below(node, key)
            if node is not None:
                return values.deep(node, item.scope)
        return default(section, keys)

    return lookup
