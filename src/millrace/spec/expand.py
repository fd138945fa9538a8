"""From a document to its things: constants worked out, repetition unrolled, layers in order."""

from __future__ import annotations

import graphlib
import itertools
import math
from collections import ChainMap, Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millrace.errors import Location, Problems
from millrace.model.shape import REQUIRED, Record, Shape, Text
from millrace.model.text import written
from millrace.model.types import NAME, NAME_EXPECTED
from millrace.spec.document import SECTIONS, Document, Entry, Layer
from millrace.spec.evaluate import Scope, Values
from millrace.spec.expression import BROKEN, ExpressionError
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
    """Work the constants out, each after those it uses; what is wrong is told once, here."""
    graph = {
        name: values.uses(node) & document.constants.keys()
        for name, node in document.constants.items()
    }
    known: dict[str, Any] = {}
    while True:
        try:
            order = list(graphlib.TopologicalSorter(graph).static_order())
            break
        except graphlib.CycleError as error:
            cycle = error.args[1]
            problems.error(
                "constant-cycle",
                "these constants need each other: " + " -> ".join(reversed(cycle[:8])),
                document.constants[cycle[0]].at,
                hint="give one of them a value of its own",
            )
            for name in cycle:
                known[name] = BROKEN
                graph.pop(name, None)
    for name in order:
        if name not in known:
            before = problems.total
            value = values.deep(document.constants[name], Scope(ChainMap(known)))
            known[name] = value if problems.total == before else BROKEN
    return Scope(ChainMap(known))


@dataclass(slots=True)
class Expander:
    """Unrolls `for`, names things and puts their layers in order."""

    document: Document
    values: Values
    problems: Problems
    scope: Scope
    counts: Counter[str] = field(default_factory=Counter)
    #: Whether things were left out because of a problem with their names.
    dropped: bool = False
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
                hint="write `key: value` lines below it",
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
            self.dropped = True
            return
        if not NAME.fullmatch(name):
            self.problems.error(
                "bad-name",
                f"{name!r} can't be a name",
                entry.at,
                expected=NAME_EXPECTED,
                hint="rename it",
            )
            self.dropped = True
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
                hint="write a variable and its list, such as {edge: [north, south]}",
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
                    hint="use letters, digits and _, and no digit first",
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
                    hint='write [a, b], or "${{ range(n) }}"',
                )
                return None
            lists[name] = listed
        return lists


@dataclass(slots=True)
class Lookup:
    """Finds the value of a field of another thing for expressions: `streams.raw.partitions`."""

    items: Items
    values: Values
    shapes: Mapping[str, Record]
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict)
    _open: set[tuple[str, ...]] = field(default_factory=set)

    def __call__(self, section: str, name: str, keys: tuple[str, ...]) -> Any:
        """Return plain data; ExpressionError where there is no such thing, or a circle."""
        path = (section, name, *keys)
        if path in self._open:
            message = f"{'.'.join(path)} needs itself"
            raise ExpressionError(message, hint="put the value under `constants`")
        if path not in self._known:
            self._open.add(path)
            try:
                self._known[path] = self._find(section, name, keys)
            except ExpressionError as error:
                self._known[path] = error
            finally:
                self._open.discard(path)
        self.values.evaluator.count(1)
        found = self._known[path]
        if isinstance(found, ExpressionError):
            raise found
        return found

    def _find(self, section: str, name: str, keys: tuple[str, ...]) -> Any:
        item = self.items[section].get(name)
        if item is None:
            message = f"there is no {name!r} under {section}"
            known = ", ".join(itertools.islice(self.items[section], 8))
            raise ExpressionError(message, hint=f"known: {known}")
        if not keys:
            return name
        for layer in item.layers:
            node = self._descend(layer.node, keys, item.scope, self.shapes[section])
            if node is not None:
                return self.values.deep(node, item.scope)
        return _built_in(self.shapes[section], keys)

    def _descend(
        self, node: Node, keys: tuple[str, ...], scope: Scope, shape: Shape
    ) -> Node | None:
        """Follow keys, through short forms and expressions."""
        for key in keys:
            done = self.values.of(node, scope)
            if done is None:
                return None
            if isinstance(done.value, dict):
                below = done.value.get(key)
            else:
                below = done if isinstance(shape, Record) and shape.short == key else None
            if below is None:
                return None
            known = isinstance(shape, Record) and key in shape.key_set
            shape = shape.field(key).shape if known and isinstance(shape, Record) else Text()
            node = below
        return node


def _built_in(shape: Shape, keys: tuple[str, ...]) -> Any:
    """The value of a field that nobody wrote."""
    value: Any = None
    for key in keys:
        if not isinstance(shape, Record) or key not in shape.key_set:
            message = f"there is no field {key!r}"
            known = ", ".join(shape.keys[:8]) if isinstance(shape, Record) else "none"
            raise ExpressionError(message, hint=f"known: {known}")
        item = shape.field(key)
        shape, value = item.shape, item.default
    return None if value is None or value is REQUIRED else written(value)
