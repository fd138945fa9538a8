"""Values of nodes: what a scalar with expressions in it comes to, in its scope."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millrace.errors import Diagnostic, Problems
from millrace.spec.expression import (
    OPEN,
    Evaluator,
    Expression,
    ExpressionError,
    as_text,
    parts_of,
)
from millrace.spec.node import Node

#: `streams.raw.partitions`, `streams["raw-1"].partitions`: a value of another thing.
_REFERENCE: Final = re.compile(
    r"(?<![\w.])(sites|pilots|streams|jobs)(?:\.([A-Za-z_]\w*)|\[\s*[\"']([^\"']+)[\"']\s*\])"
    r"((?:\.[A-Za-z_]\w*\b(?!\s*\())*)"
)
#: `list.map(streams, ...)`: there the word is a name of the expression's own.
_BOUND: Final = re.compile(
    r"\b(?:map|filter|all|exists|exists_one)\s*\(\s*(sites|pilots|streams|jobs)\s*,"
)
_LITERAL: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_ROOT: Final = re.compile(r"(?<![\w.])(?:sites|pilots|streams|jobs)\s*[.\[]")
MOST_REFERENCES_DEEP: Final = 20
_FAILED: Final = object()


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that expressions at a place may use."""

    names: ChainMap[str, Any] = field(default_factory=ChainMap)

    def with_names(self, more: Mapping[str, Any]) -> Scope:
        """Return a scope in which `more` comes first."""
        return Scope(self.names.new_child(dict(more))) if more else self


#: Finds the value of a field of another thing: section, name, keys -> plain data.
FindValue = Callable[[str, str, tuple[str, ...]], Any]


@dataclass(slots=True)
class Values:
    """Turns nodes with expressions into nodes without."""

    problems: Problems
    evaluator: Evaluator = field(default_factory=Evaluator)
    lookup: FindValue | None = None
    _depth: int = 0

    def of(self, node: Node, scope: Scope) -> Node | None:
        """Return the node itself, or what its expressions come to; None after a problem."""
        if not isinstance(node.value, str) or node.done or OPEN not in node.value:
            return node
        found = self._worked_out(node.value, node, scope)
        return None if found is _FAILED else node.like(found, done=True)

    def deep(self, node: Node, scope: Scope) -> Any:
        """Return the whole tree below as plain data, expressions worked out."""
        if isinstance(node.value, dict):
            return {key: self.deep(item, scope) for key, item in node.value.items()}
        if isinstance(node.value, list):
            return [self.deep(item, scope) for item in node.value]
        if not isinstance(node.value, str) or node.done or OPEN not in node.value:
            return node.value
        found = self._worked_out(node.value, node, scope)
        return None if found is _FAILED else found

    def _worked_out(self, text: str, node: Node, scope: Scope) -> Any:
        """What the text of a node comes to, as plain data; _FAILED after a problem."""
        if self.problems.full:
            self.problems.left_out += 1
            return _FAILED
        try:
            return self._text(text, scope)
        except ExpressionError as error:
            self._tell(node, error)
            return _FAILED

    def text(self, text: str, node: Node, scope: Scope) -> str | None:
        """Return a text (a name, say) with its expressions worked out."""
        if OPEN not in text:
            return text
        try:
            return as_text(self._text(text, scope))
        except ExpressionError as error:
            self._tell(node, error)
            return None

    def uses(self, node: Node) -> set[str]:
        """Return all the names that expressions below a node use."""
        if isinstance(node.value, dict):
            return set().union(*(self.uses(item) for item in node.value.values()))
        if isinstance(node.value, list):
            return set().union(*(self.uses(item) for item in node.value))
        if not isinstance(node.value, str) or OPEN not in node.value:
            return set()
        found: set[str] = set()
        try:
            for part in parts_of(node.value):
                if isinstance(part, Expression):
                    found.update(self.evaluator.names(part))
        except ExpressionError:
            return found  # it is told when the value is worked out
        return found

    def _text(self, text: str, scope: Scope) -> Any:
        parts = parts_of(text)
        if len(parts) == 1 and isinstance(parts[0], Expression):
            return self._value(parts[0], scope)
        return "".join(
            part if isinstance(part, str) else as_text(self._value(part, scope)) for part in parts
        )

    def _value(self, expression: Expression, scope: Scope) -> Any:
        names: Mapping[str, Any] = scope.names
        if _ROOT.search(expression.text):
            names = ChainMap(self._references(expression.text, names), scope.names)
        return self.evaluator.value(expression, names)

    def _references(self, text: str, names: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of other things that an expression names, as nested maps."""
        found: dict[str, Any] = {}
        named = _references(text, names)
        if named and (self._depth >= MOST_REFERENCES_DEEP or self.lookup is None):
            message = "a constant can't use values of other things"
            if self._depth:
                message = "these references lead too far"
            raise ExpressionError(message, hint="write the expression where the value is used")
        self._depth += 1
        try:
            for section, name, keys in named:
                if self.lookup is not None:
                    _nest(found, (section, name, *keys), self.lookup(section, name, keys))
        finally:
            self._depth -= 1
        return found

    def _tell(self, node: Node, error: ExpressionError) -> None:
        if error.told:
            self.problems.failed_silently = True
            return
        self.problems.add(
            Diagnostic(
                "expression",
                str(error),
                node.at,
                found=node.describe(),
                nearest=error.near,
                hint=error.hint,
            )
        )


def _references(text: str, names: Iterable[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The values of other things that an expression names: section, name, keys."""
    literals = [match.span() for match in _LITERAL.finditer(text)]

    def outside(position: int) -> bool:
        return not any(start <= position < end for start, end in literals)

    names = {*names, *_BOUND.findall(text)}
    found = [match for match in _REFERENCE.finditer(text) if outside(match.start())]
    known = {match.start() for match in found}
    for match in _ROOT.finditer(text):
        section = re.split(r"[^a-z]", match[0])[0]
        if outside(match.start()) and match.start() not in known and section not in names:
            message = f"the name after {section!r} must be written out"
            hint = 'such as streams["raw-1"].partitions; it can\'t be worked out'
            raise ExpressionError(message, hint=hint)
    for match in found:
        if text[match.end() :].lstrip().startswith("[") and not match[4]:
            message = f"a field of {match[0]!r} is named by a dot"
            raise ExpressionError(message, hint=f"write {match[0]}.field")
    named = [
        (match[1], match[2] or match[3], tuple(match[4].split(".")[1:]))
        for match in found
        if match[1] not in names
    ]
    return sorted(named, key=lambda reference: -len(reference[2]))


def _nest(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for key in parents:
        below = into.setdefault(key, {})
        if not isinstance(below, dict):
            return
        into = below
    if value is not None:  # so that has() can ask for it
        into.setdefault(last, value)
