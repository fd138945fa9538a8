"""The grammar of SkePU-Streaming's customised JSON; the only module that imports lark.

Over JSON it has #include, C and C++ comments, bare keys and words, optional commas, named blocks
(`pipeline { ... }`), `$references` and expressions.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import lark

from millrace.errors import Diagnostic, Location, Problems
from millrace.spec.source import Source

MOST_BYTES: Final = 2 * 1024 * 1024
MOST_DEPTH: Final = 200

GRAMMAR: Final = r"""
start: "{" items "}" | items
items: (item ","?)*
item: include | pair | block
include: "#include" STRING
pair: (NAME | STRING) ":" value
block: NAME "{" items "}"
?value: object | list | sum
object: "{" items "}"
list: "[" (element ","?)* "]"
?element: value | block
?sum: product
    | sum "+" product -> add
    | sum "-" product -> subtract
?product: atom
    | product "*" atom -> multiply
    | product "/" atom -> divide
    | product "%" atom -> remainder
?atom: NUMBER -> number
    | STRING -> string
    | NAME -> word
    | REFERENCE -> reference
    | "-" atom -> negative
    | "(" sum ")"
REFERENCE: /\$[A-Za-z_]\w*(\.[A-Za-z_]\w*)*/
NAME: /[A-Za-z_]\w*/
NUMBER: /\d+(\.\d+)?([eE][-+]?\d+)?/
STRING: /"(\\.|[^"\\\n])*"/
COMMENT: /\/\/[^\n]*/ | /\/\*(.|\n)*?\*\//
%ignore COMMENT
%ignore /[ \t\r\n\f]+/
"""


class Tree(lark.Tree[lark.Token]):
    """A part of a file: `kind` says which, `parts` what it is made of, with its place.

    Its depth is known as it is made, bottom up, so that nothing recurses into a file that is
    nested too deep.
    """

    depth: int

    def __init__(self, data: str, children: list[Any], meta: Any = None) -> None:
        super().__init__(data, children, meta)
        self.depth = 0
        if str(data).startswith("__"):  # a list that still grows: its parts are counted once
            return
        depths = [part.depth for part in children if isinstance(part, Tree)]
        self.depth = 1 + max(depths, default=0)
        if self.depth > MOST_DEPTH:
            raise _TooDeepError

    @property
    def kind(self) -> str:
        """Return the rule of the grammar that made it."""
        return str(self.data)

    @property
    def parts(self) -> list[Any]:
        """Return what it is made of: trees and texts."""
        return self.children

    @property
    def line(self) -> int:
        """Return the line of its first character."""
        return int(getattr(self.meta, "line", 1))

    @property
    def column(self) -> int:
        """Return the column of its first character."""
        return int(getattr(self.meta, "column", 1))


class _TooDeepError(Exception):
    pass


def unquoted(token: str) -> str:
    """Return the text of a quoted string."""
    try:
        text = str(json.loads(token, strict=False))
        text.encode()  # half of a character can't be written again
    except ValueError:
        return token[1:-1]
    return text


@cache
def _parser() -> lark.Lark:
    return lark.Lark(GRAMMAR, parser="lalr", tree_class=Tree, propagate_positions=True)


def parse(source: Source, problems: Problems) -> Tree | None:
    """Read a file; None, with a problem, where it is not well formed."""
    if len(source.text) > MOST_BYTES:
        problems.error(
            "too-large",
            f"{source.name} has {len(source.text):,} characters",
            Location(source.name),
            expected=f"at most {MOST_BYTES:,}",
            hint="split it with #include",
        )
        return None
    try:
        tree = _parser().parse(source.text)
    except lark.UnexpectedInput as error:
        problems.add(_syntax(error, source))
        return None
    except _TooDeepError:
        problems.error(
            "too-deep",
            f"nested more than {MOST_DEPTH} deep",
            Location(source.name),
            hint="a pipeline needs about ten levels",
        )
        return None
    return tree if isinstance(tree, Tree) else None


def _syntax(error: lark.UnexpectedInput, source: Source) -> Diagnostic:
    line, column = max(getattr(error, "line", 1), 1), max(getattr(error, "column", 1), 1)
    token = getattr(error, "token", None)
    wanted = sorted(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    if token is not None and token.type == "$END":
        found, hint = "the end of the file", "close every { and ["
        line, column = source.text.count("\n") + 1, 1
    else:
        text = source.text.split("\n")[line - 1][column - 1 : column + 19] if line else ""
        found, hint = (
            repr(str(token) if token is not None else text),
            "a bracket, a colon or a quote is missing or too much, here or just before",
        )
    names = {
        "LBRACE": "{",
        "RBRACE": "}",
        "LSQB": "[",
        "RSQB": "]",
        "COLON": ":",
        "COMMA": ",",
        "NAME": "a name",
        "STRING": "a text",
        "NUMBER": "a number",
        "REFERENCE": "$reference",
    }
    expected = ", ".join(names[name] for name in wanted if name in names)
    return Diagnostic(
        "syntax",
        f"not well-formed: {found} can't stand here",
        Location(source.name, line, column),
        found=found,
        expected=expected,
        hint=hint,
    )
