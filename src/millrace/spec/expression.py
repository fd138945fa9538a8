"""`${{ expression }}` in CEL: typed, without loops or side effects, within a budget.

The only module that imports cel; it is loaded with the first expression, since most files that
are read by programs have none.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from millrace.errors import nearest
from millrace.model.quantity import Duration

OPEN: Final = "${{"
MOST_CHARACTERS: Final = 1_000
MOST_TEXT: Final = 64 * 1024
MOST_ITEMS: Final = 100_000
#: Work that all expressions of a document may do together, in values looked at or made.
MOST_WORK: Final = 5_000_000
#: What reading an expression for the first time costs.
COMPILING: Final = 100

#: Counted wherever the word stands: a comment can part it from its dot and its bracket.
_MACRO: Final = re.compile(r"\b(map|filter|all|exists|exists_one)\b")
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']*)'")
_PARSE: Final = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]{1,120})")


class ExpressionError(Exception):
    """An expression can't be read or worked out."""

    def __init__(self, message: str, *, near: str = "", hint: str = "", told: bool = False) -> None:
        super().__init__(message)
        self.near = near
        self.hint = hint
        #: Whether the cause was told already, where it stands.
        self.told = told


@dataclass(frozen=True, slots=True)
class Expression:
    """The text between `${{` and `}}`."""

    text: str


Part = str | Expression


@lru_cache(maxsize=4096)
def parts_of(text: str) -> tuple[Part, ...]:
    """Split a text into literal parts and expressions; `$${{` stands for a literal `${{`."""
    parts: list[Part] = []
    literal = ""
    position = 0
    while (start := text.find(OPEN, position)) >= 0:
        if start and text[start - 1] == "$":
            literal += text[position : start - 1] + OPEN
            position = start + len(OPEN)
            continue
        literal += text[position:start]
        end = _end_of(text, start + len(OPEN))
        if literal:
            parts.append(literal)
        literal = ""
        parts.append(Expression(text[start + len(OPEN) : end].strip()))
        position = end + 2
    literal += text[position:]
    if literal or not parts:
        parts.append(literal)
    return tuple(parts)


def _end_of(text: str, start: int) -> int:
    """Find the `}}` that closes an expression, past quotes and braces of its own."""
    depth, quote, position = 0, "", start
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}" and depth:
            depth -= 1
        elif text.startswith("}}", position):
            return position
        position += 1
    message = "an expression is opened with ${{ and not closed"
    raise ExpressionError(message, hint="close it with }}, or write $${{ for the plain characters")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program, how often it uses which names, and how deep its macros can nest."""

    program: Any
    uses: dict[str, int]
    macros: int
    literals: int


@lru_cache(maxsize=4096)
def _compiled(text: str) -> _Compiled:
    import cel  # noqa: PLC0415 - see the module's docstring

    logging.getLogger("cel").setLevel(logging.CRITICAL)  # what fails is told by us
    if not text:
        message = "an expression with nothing in it"
        raise ExpressionError(message, hint="write a value between ${{ and }}")
    if len(text) > MOST_CHARACTERS:
        message = f"an expression of {len(text):,} characters ({MOST_CHARACTERS:,} at most)"
        raise ExpressionError(message, hint="give parts of it names under `constants`")
    try:
        program = cel.compile(text)
    except ValueError as error:
        match = _PARSE.search(str(error))
        what = f"{match[3]} (at character {match[2]})" if match else "it can't be read"
        message = f"not an expression: {what}"
        raise ExpressionError(message, hint="see https://cel.dev for the language") from None
    if "matches" in program.functions():
        message = "`matches` is not part of the language of pipeline files"
        raise ExpressionError(message, hint="use startsWith, endsWith, contains or ==")
    uses = {name: len(re.findall(rf"\b{name}\b", text)) for name in program.variables()}
    return _Compiled(program, uses, len(_MACRO.findall(text)), 1 + text.count(","))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that an expression uses."""
    return tuple(_compiled(text).uses)


#: A constant that could not be worked out; what uses it says nothing more.
BROKEN: Final = object()


@dataclass(slots=True)
class Evaluator:
    """Works expressions out, and keeps count of the work.

    Nothing can stop the library once it runs, so work is charged before: what an expression is
    given, as often as it names it, squared, because sums copy what they have so far; with macros
    to the power of their number and one more, because they do too.
    """

    work: int = 0
    _seen: set[str] = field(default_factory=set)
    _sizes: dict[int, tuple[Any, int]] = field(default_factory=dict)
    _loop: tuple[int, int, int] = (0, 0, 0)
    _failure: ExpressionError | None = None

    def value(self, expression: Expression, names: Mapping[str, Any]) -> Any:
        """Return the value with its type kept; ExpressionError says what is wrong."""
        import cel  # noqa: PLC0415

        code = _compiled(expression.text)
        variables = {name: names[name] for name in code.uses if name in names}
        if any(value is BROKEN for value in variables.values()):
            message = "it uses a constant that is wrong"
            raise ExpressionError(message, told=True)
        self._charge(code, variables, expression)
        self._failure = None
        try:
            context = cel.Context(variables=variables, functions={"range": self._range})
            result = code.program.execute(context)
        except Exception as error:  # the library raises builtin kinds of every sort
            raise self._explained(error, names) from None
        return self._checked(result)

    def _explained(self, error: Exception, names: Mapping[str, Any]) -> ExpressionError:
        """What went wrong: in a function of ours, or in the library's words made plain."""
        return self._failure if self._failure is not None else _explained(error, names)

    def _charge(
        self, code: _Compiled, variables: Mapping[str, Any], expression: Expression
    ) -> None:
        if expression.text not in self._seen:
            self._seen.add(expression.text)
            self.count(COMPILING)
        given = sum(self._size(value) * code.uses[name] ** 2 for name, value in variables.items())
        self.count(1 + given // 4)
        longest = max((_longest(value) for value in variables.values()), default=1)
        sizes = sorted(
            size
            for name, value in variables.items()
            for size in [self._size(value)] * code.uses[name]
        )
        inside = sum(sizes[: max(len(sizes) - code.macros, 0)])  # the others are gone over
        self._loop = (code.macros, code.literals + inside, 0)
        self._charge_loops(max(longest, code.literals))

    def _charge_loops(self, length: int) -> None:
        """Charge what macros over lists of a length may take, beyond what was charged."""
        macros, body, charged = self._loop
        if macros:
            cost = length ** (macros + 1) * body // 50
            self.count(max(cost - charged, 0))
            self._loop = (macros, body, max(cost, charged))

    def _size(self, value: Any) -> int:
        """How many values there are in a value; constants are asked for often."""
        if not isinstance(value, list | dict):
            return 1 + len(value) // 8 if isinstance(value, str) else 1
        known = self._sizes.get(id(value))
        if known is None or known[0] is not value:
            items = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = (value, 1 + sum(map(self._size, items)))
        return known[1]

    def count(self, work: int) -> None:
        """Spend some of the document's budget."""
        self.work += work
        if self.work > MOST_WORK:
            message = "the expressions of this document would take too long"
            self._failure = ExpressionError(message, hint="shorten the lists that they go over")
            raise self._failure

    def _range(self, count: int) -> list[int]:
        """`range(n)` of the language; its length is work too, whoever asks for it how often."""
        if not 0 <= count <= MOST_ITEMS:
            message = f"range({count}) is out of bounds: 0 to {MOST_ITEMS:,}"
            self._failure = ExpressionError(message)
            raise self._failure
        self.count(count)
        self._charge_loops(count)
        return list(range(count))

    def _checked(self, result: Any, depth: int = 0) -> Any:
        """Keep to the types of a document, within the budget."""
        if depth > 20:
            message = "the value is nested too deep"
            raise ExpressionError(message)
        self.count(1)
        match result:
            case None | bool() | int() | float():
                return result
            case str():
                if len(result) > MOST_TEXT:
                    message = f"the value is a text of {len(result):,} characters"
                    raise ExpressionError(message, hint=f"{MOST_TEXT:,} at most")
                self.count(len(result) // 8)
                return result
            case list():
                if len(result) > MOST_ITEMS:
                    message = f"the value is a list of {len(result):,}"
                    raise ExpressionError(message, hint=f"{MOST_ITEMS:,} at most")
                return [self._checked(item, depth + 1) for item in result]
            case dict():
                return {str(key): self._checked(item, depth + 1) for key, item in result.items()}
            case datetime.timedelta():
                return str(Duration(round(result.total_seconds() * 1_000_000) * 1_000))
            case datetime.datetime():
                return result.isoformat()
            case _:
                message = f"the value is of a kind ({type(result).__name__}) that files don't have"
                raise ExpressionError(message)


def _longest(value: Any) -> int:
    """The longest list in a value."""
    if not isinstance(value, list | dict):
        return 1
    items = value.values() if isinstance(value, dict) else value
    return max(len(value), max(map(_longest, items), default=1))


def _explained(error: Exception, names: Mapping[str, Any]) -> ExpressionError:
    match = _UNDEFINED.search(str(error))
    if match:
        known = ", ".join(islice(names, 8)) or "none"
        return ExpressionError(
            f"{match[1]!r} is not known here",
            near=nearest(match[1], names),
            hint=f"declare it under `constants` (known: {known})",
        )
    if isinstance(error, KeyError):
        return ExpressionError(
            f"there is no {error.args[0]!r} in it", hint="has(x.name) asks whether it is there"
        )
    text = str(error).split("\n")[0]
    return ExpressionError(text[:200], hint="check the values that it uses, and their types")


def as_text(value: Any) -> str:
    """Put a value into a text, as an expression between other characters does."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float() | str():
            return str(value)
        case _:
            message = "only texts, numbers, true and false can stand inside a text"
            raise ExpressionError(message, hint="let the expression be the whole value")
