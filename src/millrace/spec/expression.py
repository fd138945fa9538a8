"""`${{ expression }}` in CEL: typed, without loops or side effects, within a budget.

The only module that imports cel; it is loaded with the first expression, since most files that
are read by programs have none.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from millrace.errors import nearest
from millrace.model.quantity import Duration

OPEN: Final = "${{"
MOST_CHARACTERS: Final = 1_000
MOST_TEXT: Final = 64 * 1024
MOST_ITEMS: Final = 100_000
#: Work that all expressions of a document may do together, in values looked at or made.
MOST_WORK: Final = 5_000_000

_MACRO: Final = re.compile(r"\.\s*(map|filter|all|exists|exists_one)\s*\(")
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']*)'")
_PARSE: Final = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]{1,120})")


class ExpressionError(Exception):
    """An expression can't be read or worked out."""

    def __init__(self, message: str, *, near: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.near = near
        self.hint = hint


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


@lru_cache(maxsize=4096)
def _compiled(text: str) -> tuple[Any, tuple[str, ...], int]:
    """The program, the names it uses, and how many macros loop in it."""
    import cel  # noqa: PLC0415 - see the module's docstring

    logging.getLogger("cel").setLevel(logging.CRITICAL)  # what fails is told by us
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
    return program, tuple(program.variables()), len(_MACRO.findall(text))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that an expression uses."""
    return _compiled(text)[1]


@dataclass(slots=True)
class Evaluator:
    """Works expressions out, and keeps count of the work."""

    work: int = 0
    _loops: bool = False

    def value(self, expression: Expression, names: Mapping[str, Any]) -> Any:
        """Return the value with its type kept; ExpressionError says what is wrong."""
        import cel  # noqa: PLC0415

        program, used, macros = _compiled(expression.text)
        variables = {name: names[name] for name in used if name in names}
        self._spend(variables, macros, expression)
        try:
            context = cel.Context(variables=variables, functions={"range": self._range})
            result = program.execute(context)
        except Exception as error:  # the library raises builtin kinds of every sort
            raise _explained(error, names) from None
        return self._checked(result)

    def _spend(self, variables: Mapping[str, Any], macros: int, expression: Expression) -> None:
        """Bound the work before it is done: nothing can stop it once it runs."""
        self._loops = macros > 0
        longest = max((_length(value) for value in variables.values()), default=1)
        if macros:
            longest = max(longest, len(expression.text) // 2)
            self._count(longest ** (macros + 1) // 10)
        else:
            self._count(1 + longest // 10)

    def _count(self, work: int) -> None:
        self.work += work
        if self.work > MOST_WORK:
            message = "the expressions of this document would take too long"
            raise ExpressionError(message, hint="shorten the lists that map, filter or all go over")

    def _range(self, count: int) -> list[int]:
        """`range(n)` of the language; its length is work too, whoever asks for it how often."""
        if not 0 <= count <= MOST_ITEMS:
            message = f"range({count}) is out of bounds: 0 to {MOST_ITEMS:,}"
            raise ExpressionError(message)
        # a macro copies what it has so far with every value: its cost is the square of the length
        self._count(count * count // 10 if self._loops else count)
        return list(range(count))

    def _checked(self, result: Any, depth: int = 0) -> Any:
        """Keep to the types of a document, within the budget."""
        if depth > 20:
            message = "the value is nested too deep"
            raise ExpressionError(message)
        self._count(1)
        match result:
            case None | bool() | int() | float():
                return result
            case str():
                if len(result) > MOST_TEXT:
                    message = f"the value is a text of {len(result):,} characters"
                    raise ExpressionError(message, hint=f"{MOST_TEXT:,} at most")
                self._count(len(result) // 8)
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


def _length(value: Any) -> int:
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        return max(len(value), max((_length(item) for item in items), default=1))
    return len(value) // 8 if isinstance(value, str) else 1


def _explained(error: Exception, names: Mapping[str, Any]) -> ExpressionError:
    if isinstance(error, ExpressionError):
        return error
    match = _UNDEFINED.search(str(error))
    if match:
        known = ", ".join(sorted(names)[:8]) or "none"
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
    return ExpressionError(text[:200])


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
