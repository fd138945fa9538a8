"""SkePU-Streaming's trees as nodes: includes put in, references and expressions worked out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from millrace.errors import Location, Problems
from millrace.spec.node import Node
from millrace.spec.skepu_grammar import Tree, parse, unquoted
from millrace.spec.source import MOST_FILES, Source, Sources

#: A file with what it includes, each as deep as it is nested itself.
MOST_DEPTH_IN_ALL: Final = 300
#: The key under which a map keeps the word before its brace (`skepu { ... }`).
BLOCK: Final = "@block"
MOST_WORD: Final = 10_000


@dataclass(slots=True)
class Builder:
    """Turns the trees of a file and of its includes into one tree of nodes.

    References are looked up in `known`, which the first pass over constants, hosts and streams
    fills; what is not known yet stays an Unknown, to be told when it is needed.
    """

    sources: Sources
    problems: Problems
    known: dict[str, Any] = field(default_factory=dict)
    _chain: tuple[Path, ...] = ()
    _trees: dict[Path, Tree | None] = field(default_factory=dict)
    _included_so_far: int = 0
    #: How deep the files are nested, all together, that are open now.
    _depth: int = 0

    def build(self, tree: Tree, source: Source) -> Node:
        """Return a file's content as a node."""
        self._depth = tree.depth
        return self._object(tree, source)

    def _object(self, tree: Tree, source: Source, block: str | None = None) -> Node:
        values: dict[str, Node] = {}
        places: dict[str, tuple[int, int]] = {}
        for key, node, at in self._entries(tree, source):
            if key in values:
                self.problems.error(
                    "duplicate-key", f"the key {key!r} stands twice", at, hint="remove one of them"
                )
                continue
            values[key] = node
            places[key] = (at.line, at.column)
        if block is not None:
            values[BLOCK] = Node(block, source.name, tree.line, tree.column)
        return Node(values, source.name, tree.line, tree.column, places)

    def _entries(self, tree: Tree, source: Source) -> Iterator[tuple[str, Node, Location]]:
        for item in self._items(tree):
            at = Location(source.name, item.line, item.column)
            if item.kind == "include":
                yield from self._include(unquoted(item.parts[0]), source, at)
            elif item.kind == "pair":
                yield _key(item.parts[0]), self._value(item.parts[1], source), at
            else:
                name = _key(item.parts[0])
                yield name, self._object(item.parts[1], source, name), at

    def _items(self, tree: Tree) -> Iterator[Tree]:
        """The entries of a map, whatever the grammar wraps round them."""
        for part in tree.parts:
            if part.kind in ("items", "item"):
                yield from self._items(part)
            else:
                yield part

    def _include(
        self, name: str, source: Source, at: Location
    ) -> Iterator[tuple[str, Node, Location]]:
        included = self._included(name, source, at)
        if included is None:
            return
        inner, tree = included
        before = self._chain, self._depth
        self._chain = (*self._chain, inner.path.resolve() if inner.path else Path())
        self._depth += tree.depth
        try:
            yield from self._entries(tree, inner)
        finally:
            self._chain, self._depth = before

    def _included(self, name: str, source: Source, at: Location) -> tuple[Source, Tree] | None:
        self._included_so_far += 1
        if self._included_so_far > MOST_FILES:
            self.problems.error(
                "too-many-files",
                f"more than {MOST_FILES} includes",
                at,
                hint="include each file once, or put several into one",
            )
            return None
        path = self.sources.included(name, source, at)
        if path is None or source.path is None:
            return None
        if path in (*self._chain, source.path.resolve()):
            self.problems.error(
                "include-cycle", f"{name} includes itself", at, hint="remove one of these includes"
            )
            return None
        shown = str(PurePath(source.name).parent / name)
        inner = self.sources.read(path, shown, at)
        if inner is None:
            return None
        if path not in self._trees:
            self._trees[path] = parse(inner, self.problems)
        tree = self._trees[path]
        if tree is not None and self._depth + tree.depth > MOST_DEPTH_IN_ALL:
            told = f"nested more than {MOST_DEPTH_IN_ALL} deep, with all that is included"
            self.problems.error("too-deep", told, at, hint="include it further up")
            return None
        return None if tree is None else (inner, tree)

    def _value(self, tree: Tree, source: Source) -> Node:
        place = Node(None, source.name, tree.line, tree.column)
        if tree.kind == "object":
            return self._object(tree, source)
        if tree.kind == "block":
            return self._object(tree.parts[1], source, _key(tree.parts[0]))
        if tree.kind == "list":
            place.value = [self._value(part, source) for part in tree.parts]
            return place
        return place.like(self._worked_out(tree, place))

    def _worked_out(self, tree: Tree, place: Node) -> Any:
        """The value of an expression; Unknown where a reference in it is not known yet."""
        match tree.kind:
            case "string":
                return unquoted(tree.parts[0])
            case "number":
                text = str(tree.parts[0])
                return int(text) if text.isdigit() and len(text) < 19 else float(text)
            case "word":
                word = str(tree.parts[0])
                return _WORDS.get(word, word)
            case "reference":
                return self._reference(str(tree.parts[0])[1:])
            case _:
                parts = [self._worked_out(part, place) for part in tree.parts]
                return self._calculated(tree, parts, place)

    def _reference(self, name: str) -> Any:
        first, *rest = name.split(".")
        value = self.known.get(first, Unknown(first))
        for key in rest:
            value = value.get(key, Unknown(name)) if isinstance(value, dict) else Unknown(name)
        return value

    def _calculated(self, tree: Tree, parts: list[Any], place: Node) -> Any:
        unknown = next((part for part in parts if isinstance(part, Unknown)), None)
        if unknown is not None:
            return unknown
        try:
            value = _OPERATIONS[tree.kind](*parts)
        except ZeroDivisionError:
            hint = "divide by another number"
            self.problems.error("expression", "division by zero", place.at, hint=hint)
            return 0
        except (TypeError, OverflowError):
            value = None
        if value is None or _too_large(value):
            shown = " and ".join(str(part)[:20] for part in parts)
            self.problems.error(
                "expression",
                f"can't {tree.kind} {shown}",
                place.at,
                expected="two numbers, or two texts to add",
                hint="check both values, and their types",
            )
            return 0
        return value


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reference to something that is not declared."""

    name: str


def _too_large(value: Any) -> bool:
    return len(value) > MOST_WORD if isinstance(value, str) else abs(value) >= 2**63


_WORDS: Final[dict[str, Any]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _number(left) + _number(right)


def _divide(left: Any, right: Any) -> Any:
    exact = _number(left) / _number(right)
    return int(exact) if exact.is_integer() and isinstance(left, int) else exact


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": _add,
    "subtract": lambda a, b: _number(a) - _number(b),
    "multiply": lambda a, b: _number(a) * _number(b),
    "divide": _divide,
    "remainder": lambda a, b: _number(a) % _number(b),
    "negative": lambda a: -_number(a),
}


def _key(token: str) -> str:
    return unquoted(token) if token.startswith('"') else str(token)


def tell_unknown(node: Node, known: dict[str, Any], problems: Problems) -> None:
    """Tell every reference below that nothing answers to."""
    if isinstance(node.value, dict):
        for item in node.value.values():
            tell_unknown(item, known, problems)
    elif isinstance(node.value, list):
        for item in node.value:
            tell_unknown(item, known, problems)
        return
    unknown: Any = node.value
    if isinstance(unknown, Unknown):
        near = problems.nearest(unknown.name, known)
        problems.error(
            "unknown-reference",
            f"${unknown.name} refers to nothing",
            node.at,
            nearest=near,
            expected="the id of a constant, a host or a stream",
            hint=f"did you mean ${near}?" if near else "declare it, or correct the name",
        )
