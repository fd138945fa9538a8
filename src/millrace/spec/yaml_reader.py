"""YAML 1.2 (and so JSON) into nodes, on libyaml's events.

PyYAML's own `compose` is recursive in C: it ends the process on 100,000 open brackets. The events
of the same parser arrive one by one, so depth is bounded before it is reached, and building nodes
from them is faster too. The only module that imports yaml.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from millrace.errors import Diagnostic, Location, Problems
from millrace.spec.node import Node, Scalar
from millrace.spec.source import Source

MOST_DEPTH: Final = 100
MOST_ALIASED: Final = 100_000
MOST_NODES: Final = 1_000_000
MOST_KEY: Final = 1_024
MOST_NUMBER: Final = 2**63
MOST_DIGITS: Final = 1_000

_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMERIC: Final = frozenset("0123456789+-.")
_TAG: Final = "tag:yaml.org,2002:"
_CORE_TAGS: Final = frozenset(
    _TAG + kind for kind in ("str", "int", "float", "bool", "null", "map", "seq")
)


class _Stop(Exception):
    """The document can't be read further; the problem was told."""


def read_yaml(source: Source, problems: Problems) -> Node | None:
    """Read the one document of a text; None, with problems, where it is not well formed."""
    loader = yaml.CSafeLoader(source.text)
    try:
        node = _Builder(source.name, problems, loader).document()
    except _Stop:
        return None
    except yaml.YAMLError as error:
        problems.add(_syntax(error, source))
        return None
    finally:
        loader.dispose()
    return node


class _Frame:
    """An open list or map: what it holds so far."""

    __slots__ = ("anchor", "height", "items", "key", "node", "size", "table")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.items: list[Node] | None = node.value if isinstance(node.value, list) else None
        self.table: dict[str, Node] | None = node.value if isinstance(node.value, dict) else None
        self.key: str | None = None
        self.size = 1
        self.height = 1


class _Builder:
    """Turns events into nodes, one at a time and without recursion."""

    def __init__(self, file: str, problems: Problems, loader: Any) -> None:
        self.file = file
        self.problems = problems
        self.loader = loader
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Node, int, int] | None] = {}
        self.nodes = 0
        self.aliased = 0
        self.root: Node | None = None

    def document(self) -> Node | None:
        get = self.loader.get_event
        get(), get()  # the stream's start, then the document's or the stream's end
        event = get()
        if event is None:
            self._fail(
                "empty",
                "the file is empty",
                Location(self.file),
                hint="a pipeline file starts with `pipeline: NAME`",
            )
        while True:
            self._take(event)
            if not self.stack:
                break
            event = get()
        get()  # the document's end
        after = get()
        if after is not None and not isinstance(after, yaml.StreamEndEvent):
            self._fail(
                "syntax",
                "a second document starts here",
                self._at(after),
                hint="put one pipeline in a file; `---` may only stand at its top",
            )
        return self.root

    def _take(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            self._fail(
                "too-large",
                f"more than {MOST_NODES:,} values in one file",
                self._at(event),
                hint="split it with `include`, or write repeated things with `for`",
            )
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._open(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            frame = self.stack.pop()
            if frame.anchor is not None:
                self.anchors[frame.anchor] = (frame.node, frame.size, frame.height)
            self._put(frame.node, frame.size, frame.height)
        elif isinstance(event, AliasEvent):
            self._alias(event)

    def _scalar(self, event: Any) -> None:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.table is not None and frame.key is None:
            if event.anchor is not None:
                self.anchors[event.anchor] = (Node(event.value, self.file, line, column), 1, 0)
            self._key(frame, event.value, line, column)
            return
        value: Scalar = event.value
        if event.implicit[0]:
            value = self._resolve(event.value, line, column)
        elif event.tag is not None and event.tag != _TAG + "str":
            value = self._tagged(event, line, column)
        node = Node(value, self.file, line, column)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, 1, 0)
        self._put(node, 1, 0)

    def _resolve(self, text: str, line: int, column: int) -> Scalar:
        """The core schema of YAML 1.2: `no` stays text, `010` is ten."""
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in _NUMERIC:
            return text
        if _INT.fullmatch(text):
            value = int(text, 0) if text[:2] in ("0o", "0x") else int(text[:MOST_DIGITS])
            if len(text) < MOST_DIGITS and abs(value) < MOST_NUMBER:
                return value
            self.problems.error(
                "number",
                f"the number {text[:30]} is beyond 64 bits",
                Location(self.file, line, column),
                hint="quote it if it is meant as text",
            )
            return 0
        return float(text) if _FLOAT.fullmatch(text) else text

    def _tagged(self, event: ScalarEvent, line: int, column: int) -> Scalar:
        self._check_tag(event)
        value = self._resolve(event.value, line, column)
        kind = str(event.tag).removeprefix(_TAG)
        fits = {"int": int, "float": int | float, "bool": bool, "null": type(None)}.get(kind)
        if fits is not None and not isinstance(value, fits):
            self.problems.error(
                "tag",
                f"{event.value!r} is not a {kind}",
                Location(self.file, line, column),
                hint="remove the tag, or correct the value",
            )
        return value

    def _check_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in _CORE_TAGS and event.tag != "!":
            self.problems.error(
                "tag",
                f"the tag {event.tag} is not known",
                self._at(event),
                expected="plain YAML 1.2",
                hint="remove the tag",
            )

    def _open(self, event: Any) -> None:
        if len(self.stack) >= MOST_DEPTH:
            self._too_deep(event)
        self._check_tag(event)
        mark = event.start_mark
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.table is not None and frame.key is None:
            self._fail(
                "syntax",
                "a list or map can't be a key",
                self._at(event),
                expected="a text",
                hint='inside { } and [ ] an expression stands in quotes: "${{ ... }}"',
            )
        is_map = isinstance(event, MappingStartEvent)
        node = Node(
            {} if is_map else [], self.file, mark.line + 1, mark.column + 1, {} if is_map else None
        )
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(node, event.anchor))

    def _alias(self, event: Any) -> None:
        known = self.anchors.get(event.anchor)
        if known is None:
            inside = event.anchor in self.anchors
            what = "stands inside what it names" if inside else "names no anchor"
            self._fail(
                "bad-alias",
                f"the alias *{event.anchor} {what}",
                self._at(event),
                hint="an anchor (&name) must stand before its aliases, and not around them",
            )
        node, size, height = known
        if len(self.stack) + height > MOST_DEPTH:
            self._too_deep(event)
        self.aliased += size
        if self.aliased > MOST_ALIASED:
            self._fail(
                "alias-budget",
                f"aliases add more than {MOST_ALIASED:,} values",
                self._at(event),
                hint="use `defaults`, `groups` or `for` instead of aliases",
            )
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.table is not None and frame.key is None:
            if not isinstance(node.value, str):
                hint = "write the key out"
                self._fail("syntax", "a key must be a text", self._at(event), hint=hint)
            mark = event.start_mark
            self._key(frame, str(node.value), mark.line + 1, mark.column + 1)
            return
        self._put(node, size, height)

    def _key(self, frame: _Frame, key: str, line: int, column: int) -> None:
        keys = frame.node.keys
        if len(key) > MOST_KEY:
            at = Location(self.file, line, column)
            self._fail("syntax", f"a key of {len(key):,} characters", at, hint="shorten it")
        if keys is not None and key in keys:
            first = Location(self.file, *keys[key])
            self.problems.add(
                Diagnostic(
                    "duplicate-key",
                    f"the key {key!r} stands twice in one map",
                    Location(self.file, line, column),
                    hint="remove one of them, or rename it",
                    related=((first, "the first one"),),
                )
            )
        elif key == "<<":
            self.problems.error(
                "merge-key",
                "merge keys (<<) are not part of YAML 1.2",
                Location(self.file, line, column),
                hint="use `defaults` or `groups` instead",
            )
        elif keys is not None:
            keys[key] = (line, column)
        frame.key = key

    def _put(self, node: Node, size: int, height: int) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        frame.size += size
        frame.height = max(frame.height, height + 1)
        if frame.items is not None:
            frame.items.append(node)
        elif frame.table is not None and frame.key is not None:
            if frame.key != "<<":
                frame.table.setdefault(frame.key, node)
            frame.key = None

    def _too_deep(self, event: Any) -> NoReturn:
        self._fail(
            "too-deep",
            f"nested more than {MOST_DEPTH} deep",
            self._at(event),
            hint="a pipeline needs about ten levels",
        )

    def _at(self, event: Any) -> Location:
        return Location(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _fail(self, code: str, message: str, at: Location, **more: str) -> NoReturn:
        self.problems.error(code, message, at, **more)
        raise _Stop


def looks_like_text(text: str) -> bool:
    """Whether a text, written without quotes, would be read as the same text."""
    if text in _WORDS or text[0] in _NUMERIC:
        return text not in _WORDS and not _INT.fullmatch(text) and not _FLOAT.fullmatch(text)
    return True


def _syntax(error: yaml.YAMLError, source: Source) -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is not None:
        at = Location(source.name, mark.line + 1, mark.column + 1)
    else:
        position = getattr(error, "position", 0)
        before = source.text[:position]
        at = Location(source.name, before.count("\n") + 1, position - before.rfind("\n"))
    last = source.text.count("\n") + 1
    if at.line > last:  # libyaml ends a last line that has no end
        at = Location(source.name, last, len(source.text) - source.text.rfind("\n"))
    hint = "check the indentation and the quotes just before this place"
    lines = source.text.split("\n", at.line)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    if "\t" in line:
        hint = "indent with spaces: YAML does not allow tabs there"
    elif "${{" in line:
        hint = 'put the expression in quotes: "${{ ... }}"'
    return Diagnostic("syntax", f"not well-formed: {text}", at, hint=hint)
