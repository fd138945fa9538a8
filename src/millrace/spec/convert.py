"""From nodes to the model: types checked, layers merged, every problem with its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from millrace.errors import Problems
from millrace.model.shape import (
    Choice,
    Either,
    Field,
    Flag,
    Kind,
    Measure,
    Number,
    Record,
    Several,
    Shape,
    Table,
    Text,
    Whole,
)
from millrace.model.types import ADDRESS_SECRET, NAME, SECRET_NUMBERS, SECRET_WORDS, Secret
from millrace.ports.plugins import installed
from millrace.spec.document import Layer
from millrace.spec.evaluate import Scope, Values
from millrace.spec.expected import expected
from millrace.spec.node import Node


class _Failed:
    """Marks a value that could not be had; the problem was told."""


FAILED: Final = _Failed()
#: What a reference to a secret begins with.
_KINDS: Final = ("env:", "file:")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from, for `millrace explain`."""

    value: Any
    node: Node | None
    origin: str
    overridden: tuple[Layer, ...] = ()


@dataclass(slots=True)
class Converter:
    """Reads shapes out of layers of nodes; the nearest layer that has a field answers."""

    values: Values
    problems: Problems
    trace: dict[str, Origin] | None = None
    #: Whether what is read was found right before.
    accepted: bool = False

    def record(
        self,
        shape: Record,
        layers: Sequence[Layer],
        scope: Scope,
        path: str,
        also: frozenset[str] = frozenset(),
        **known: Any,
    ) -> Any:
        """Return the declared thing, or FAILED when any of its fields is wrong.

        `also` are keys that may stand there though they are no fields; `known` are values of
        fields that a file does not give.
        """
        opened = [self._opened(shape, layer, scope, path) for layer in layers]
        found = [layer for layer in opened if layer is not None]
        if not found:
            return FAILED
        failed = len(found) < len(layers)
        for layer in found:
            failed |= not self._keys_known(shape, layer.node, path, also)
            also = frozenset()  # only in the thing itself, not in its defaults
        given = {key for layer in found for key in layer.node.map}
        for item in shape.fields:
            if item.key not in given and self.trace is None and not item.required:
                continue
            value = self._field(item, found, scope, path)
            if value is FAILED:
                failed = True
            elif value is not _ABSENT:
                known[item.attribute] = value
        if shape.of is Secret and not failed and not self.accepted:
            failed = not known["secret"].startswith(_KINDS)
            if failed:
                self._secret(found[0].node, path)
        return FAILED if failed else shape.of(**known)

    def _opened(self, shape: Record, layer: Layer, scope: Scope, path: str) -> Layer | None:
        """A layer as a map: a bare value stands for the short field."""
        node = self.values.of(layer.node, scope)
        if node is None:
            return None
        if isinstance(node.value, dict):
            return layer if node is layer.node else Layer(node, layer.origin)
        if shape.short is not None and node.value is not None:
            return Layer(
                Node(
                    {shape.short: node},
                    node.file,
                    node.line,
                    node.column,
                    {shape.short: (node.line, node.column)},
                ),
                layer.origin,
            )
        self._wrong(node, shape, path)
        return None

    def _keys_known(self, shape: Record, node: Node, path: str, also: frozenset[str]) -> bool:
        unknown = node.map.keys() - shape.key_set - also
        for key in sorted(unknown):
            near = self.problems.nearest(key, shape.keys)
            self.problems.error(
                "unknown-key",
                f"{path} has no key {key!r}",
                node.key_at(key),
                nearest=near,
                expected=", ".join(shape.keys),
                hint=f"did you mean {near!r}?" if near else "see `millrace schema`, or remove it",
            )
        return not unknown

    def _field(self, item: Field, layers: Sequence[Layer], scope: Scope, path: str) -> Any:
        key = item.key
        found = [
            Layer(layer.node.map[key], layer.origin) for layer in layers if key in layer.node.map
        ]
        here = f"{path}.{key}"
        if not found or (found[0].node.value is None and not item.required):
            return self._missing(item, layers, here, found)
        if isinstance(item.shape, Record):
            merged = list(takewhile(lambda layer: layer.node.value is not None, found))
            value = self.record(item.shape, merged, scope, here)
        else:
            value = self.read(item.shape, found[0].node, scope, here)
        if self.trace is not None and not isinstance(item.shape, Record):
            self.trace[here] = Origin(value, found[0].node, found[0].origin, tuple(found[1:]))
        return value

    def _missing(
        self, item: Field, layers: Sequence[Layer], here: str, found: Sequence[Layer]
    ) -> Any:
        if item.required:
            self.problems.error(
                "missing-key",
                f"{here} is missing",
                layers[0].node.at if layers else None,
                expected=expected(item.shape),
                hint=f"add `{item.key}:` ({item.doc})",
            )
            return FAILED
        if self.trace is not None:
            node, origin = (found[0].node, found[0].origin) if found else (None, "built-in")
            self.trace[here] = Origin(item.default, node, origin, tuple(found[1:]))
        return _ABSENT

    def read(self, shape: Shape, node: Node, scope: Scope, path: str) -> Any:
        """Return the value of a node as its shape asks, or FAILED."""
        done = self.values.of(node, scope)
        if done is None:
            return FAILED
        match shape:
            case Record():
                return self.record(shape, [Layer(done, "")], scope, path)
            case Several(of):
                return self._several(of, done, scope, path)
            case Table(of):
                return self._table(of, done, scope, path)
            case Kind():
                return self._kind(shape, done, path)
            case Either(options):
                return self._either(options, done, scope, path)
            case _:
                value = _scalar(shape, done.value)
                if value is FAILED:
                    return self._wrong(done, shape, path)
                return self._no_secret(value, done, path)

    def _several(self, of: Shape, node: Node, scope: Scope, path: str) -> Any:
        nodes = node.value if isinstance(node.value, list) else [node]
        read = [
            self.read(of, item, scope, f"{path}[{index}]" if len(nodes) > 1 else path)
            for index, item in enumerate(nodes)
        ]
        return FAILED if any(item is FAILED for item in read) else tuple(read)

    def _table(self, of: Shape, node: Node, scope: Scope, path: str) -> Any:
        if not isinstance(node.value, dict):
            return self._wrong(node, Table(of), path)
        read = {}
        for key, item in node.value.items():
            read[key] = self.read(of, item, scope, f"{path}.{key}")
            if isinstance(of, Either) and _is_secret(key, read[key]):
                self._secret(item, f"{path}.{key}")
                read[key] = FAILED
        return FAILED if any(item is FAILED for item in read.values()) else read

    def _either(self, options: tuple[Shape, ...], node: Node, scope: Scope, path: str) -> Any:
        for option in options:
            if isinstance(option, Record):
                if isinstance(node.value, dict):
                    return self.read(option, node, scope, path)
                continue
            value = _scalar(option, node.value)
            if value is not FAILED:
                return value
        return self._wrong(node, Either(options), path)

    def _kind(self, shape: Kind, node: Node, path: str) -> Any:
        """One of our words, or a plug-in's; what was found right before may be of one not here."""
        value = node.value
        if value in shape.words:
            return shape.of(value)
        if not isinstance(value, str):
            return self._wrong(node, shape, path)
        others = installed().names(shape.group)
        if value in others or (self.accepted and NAME.fullmatch(value)):
            return value
        near = self.problems.nearest(value, (*shape.words, *others))
        self.problems.error(
            "unknown-kind",
            f"{path}: nothing that is installed here knows {value[:200]!r}",
            node.at,
            found=node.describe(),
            expected=expected(shape),
            nearest=near,
            hint=f"did you mean {near!r}?" if near else "install the package that brings it",
        )
        return FAILED

    def _wrong(self, node: Node, shape: Shape, path: str) -> Any:
        if isinstance(shape, Record) and shape.of is Secret:
            self._secret(node, path)
            return FAILED
        near = ""
        if isinstance(shape, Choice) and isinstance(node.value, str):
            near = self.problems.nearest(node.value, shape.words)
        hint = f"did you mean {near!r}?" if near else f"write {expected(shape)}"
        if isinstance(shape, Text) and isinstance(node.value, int | float):
            hint = "put it in quotes"
        elif isinstance(node.value, str) and _unquoted_fits(shape, node.value):
            hint = f"write it without quotes: {node.value}"
        self.problems.error(
            "wrong-type",
            f"{path} can't be {node.describe()}",
            node.at,
            found=node.describe(),
            expected=expected(shape),
            nearest=near,
            hint=hint,
        )
        return FAILED

    def _no_secret(self, value: Any, node: Node, path: str) -> Any:
        if isinstance(value, str) and "@" in value and ADDRESS_SECRET.match(value):
            self._secret(node, path)
            return FAILED
        return value

    def _secret(self, node: Node, path: str) -> None:
        self.problems.error(
            "secret-in-file",
            f"{path} holds a secret",
            node.at,
            expected="a reference",
            hint="write {secret: env:NAME} or {secret: file:PATH}",
        )


def _is_secret(key: str, value: Any) -> bool:
    """Whether a setting of this name must not be written down; numbers only where they must be."""
    if isinstance(value, str):
        return SECRET_WORDS.search(key) is not None
    return isinstance(value, int | float) and SECRET_NUMBERS.search(key) is not None


class _Absent:
    """Marks a field that no layer has: the model's own default stands."""


_ABSENT: Final = _Absent()


def _unquoted_fits(shape: Shape, text: str) -> bool:
    """Whether a text is only wrong because it is a text."""
    if isinstance(shape, Flag):
        return text in ("true", "false")
    return isinstance(shape, Whole | Number) and text.isascii() and text.isdigit()


def _scalar(shape: Shape, value: Any) -> Any:
    """A bare value as its shape asks, or FAILED."""
    match shape:
        case Text():
            return value if isinstance(value, str) else FAILED
        case Whole(least, most):
            fits = isinstance(value, int) and not isinstance(value, bool)
            fits = fits and (least is None or value >= least)
            fits = fits and abs(value) < 2**63 and (most is None or value <= most)
            return value if fits else FAILED
        case Number():
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return float(value) if fits and math.isfinite(value) else FAILED
        case Flag():
            return value if isinstance(value, bool) else FAILED
        case Choice(of):
            return of(value) if value in shape.words else FAILED
        case Measure(of):
            return _measure(of, value)
        case _:
            return FAILED


def _measure(of: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return FAILED
    read = of.parse(str(value))
    return FAILED if read is None else read
