"""`${{ expression }}` in CEL: typed, without loops or side effects, within a budget.

The only module that imports cel; it is loaded with the first expression, since most files that
are read by programs have none.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final

from millrace.errors import nearest
from millrace.model.quantity import Duration
from millrace.spec.charge import NEW, READING, Charge, Signs, Weight, weight

OPEN: Final = "${{"
MOST_CHARACTERS: Final = 1_000
#: Expressions in one text.
MOST_EXPRESSIONS: Final = 1_000
MOST_TEXT: Final = 64 * 1024
MOST_ITEMS: Final = 100_000
#: Work that one expression may take, and all of a document together: see `charge`.
MOST_ONCE: Final = 200_000
MOST_WORK: Final = 20_000_000

_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']*)'")
_PARSE: Final = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]{1,120})")


#: Kinds of values that hold no others and have no limits of their own.
_PLAIN: Final = frozenset({int, float, bool, type(None)})


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
        if len(parts) > 2 * MOST_EXPRESSIONS:
            message = f"a text with more than {MOST_EXPRESSIONS:,} expressions"
            raise ExpressionError(message, hint="let one expression make it, or write less of it")
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
    furthest = start + 2 * MOST_CHARACTERS  # some of them may be blanks around it
    while position < min(len(text), furthest):
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
    if len(text) > furthest:
        message = f"an expression of more than {MOST_CHARACTERS:,} characters, or one without end"
        raise ExpressionError(
            message, hint="give parts of it names under `constants`; end it by }}"
        )
    message = "an expression is opened with ${{ and not closed"
    raise ExpressionError(message, hint="close it with }}, or write $${{ for the plain characters")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program, and what its text tells of the work in it."""

    program: Any
    signs: Signs


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
    return _Compiled(program, Signs.of(text, program.variables()))


#: A constant that could not be worked out; what uses it says nothing more.
BROKEN: Final = object()


@dataclass(slots=True)
class Evaluator:
    """Works expressions out, and keeps count of the work.

    Nothing can stop the library once it runs, so work is charged before, and again whenever the
    expression asks for a list: each one's own, and all of them together.
    """

    work: int = 0
    _seen: set[str] = field(default_factory=set)
    _weights: dict[int, tuple[Any, Weight]] = field(default_factory=dict)
    _failure: ExpressionError | None = None

    def value(self, expression: Expression, names: Mapping[str, Any]) -> Any:
        """Return the value with its type kept; ExpressionError says what is wrong."""
        import cel  # noqa: PLC0415

        code = self._read(expression.text)
        variables = {name: names[name] for name in code.signs.uses if name in names}
        if any(value is BROKEN for value in variables.values()):
            message = "it uses a constant that is wrong"
            raise ExpressionError(message, told=True)
        weights = {name: self._weight(value) for name, value in variables.items()}
        charge = Charge(code.signs, weights)
        self._failure = None
        self._pay(charge)
        functions: dict[str, Callable[..., Any]] = {"range": partial(self._range, charge)}
        try:
            context = cel.Context(variables=variables, functions=functions)
            result = code.program.execute(context)
        except Exception as error:  # the library raises builtin kinds of every sort
            raise self._explained(error, names) from None
        return self._checked(result)

    def names(self, expression: Expression) -> tuple[str, ...]:
        """Return the names that an expression uses; ExpressionError if it can't be read."""
        return tuple(self._read(expression.text).signs.uses)

    def _read(self, text: str) -> _Compiled:
        """The expression of a text, which costs the first time."""
        if text not in self._seen:
            self.count(NEW + READING * min(len(text), MOST_CHARACTERS))
            self._seen.add(text)
        return _compiled(text)

    def _explained(self, error: Exception, names: Mapping[str, Any]) -> ExpressionError:
        """What went wrong: in a function of ours, or in the library's words made plain."""
        return self._failure if self._failure is not None else _explained(error, names)

    def _weight(self, value: Any) -> Weight:
        """The weight of a value; constants are asked for often."""
        if not isinstance(value, list | dict):
            return weight(value, MOST_ONCE)
        known = self._weights.get(id(value))
        if known is None or known[0] is not value:
            known = self._weights[id(value)] = (value, weight(value, MOST_ONCE))
        return known[1]

    def _pay(self, charge: Charge) -> None:
        """Count what an expression may take, beyond what was counted for it."""
        due = charge.work()
        if due > MOST_ONCE:
            message = "this expression would take too long"
            self._failure = ExpressionError(message, hint="shorten the lists that it goes over")
            raise self._failure
        self.count(due - charge.paid)
        charge.paid = due

    def count(self, work: int) -> None:
        """Spend some of the document's budget."""
        self.work += work
        if self.work > MOST_WORK:
            message = "the expressions of this document would take too long"
            self._failure = ExpressionError(message, hint="shorten the lists that they go over")
            raise self._failure

    def _range(self, charge: Charge, count: int) -> list[int]:
        """`range(n)` of the language; its length is work too, whoever asks for it how often."""
        if not 0 <= count <= MOST_ITEMS:
            message = f"range({count}) is out of bounds: 0 to {MOST_ITEMS:,}"
            self._failure = ExpressionError(message, hint="ask for a number within them")
            raise self._failure
        charge.take(count)
        self._pay(charge)
        return list(range(count))

    def _checked(self, result: Any, depth: int = 0) -> Any:
        """Keep to the types of a document, within the budget."""
        if depth > 20:
            message = "the value is nested too deep"
            raise ExpressionError(message, hint="lists and maps go 20 deep at most")
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
                if _PLAIN.issuperset(map(type, result)):
                    self.count(len(result))
                    return result
                return [self._checked(item, depth + 1) for item in result]
            case dict():
                if _PLAIN.issuperset(map(type, result.values())) and _keyed(result):
                    self.count(2 * len(result))
                    return result
                return {str(key): self._checked(item, depth + 1) for key, item in result.items()}
            case datetime.timedelta():
                return str(Duration(round(result.total_seconds() * 1_000_000) * 1_000))
            case datetime.datetime():
                return result.isoformat()
            case _:
                message = f"the value is of a kind ({type(result).__name__}) that files don't have"
                raise ExpressionError(message, hint="make it a text or a number: string(x), int(x)")


def _keyed(result: dict[Any, Any]) -> bool:
    """Whether all keys are texts, as in files."""
    return {str}.issuperset(map(type, result))


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
