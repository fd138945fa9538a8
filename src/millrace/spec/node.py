"""A document as a tree in which every value remembers where it was written."""

from __future__ import annotations

from typing import Any, Final

from millrace.errors import Location

Scalar = None | bool | int | float | str


class Node:
    """A scalar, a list of nodes or a map of nodes, with its place. Never changed once read."""

    __slots__ = ("column", "done", "file", "keys", "line", "value")

    def __init__(
        self,
        value: Scalar | list[Node] | dict[str, Node],
        file: str,
        line: int,
        column: int,
        keys: dict[str, tuple[int, int]] | None = None,
    ) -> None:
        #: Whether its expressions are worked out, so that what came of them is taken as it is.
        self.done = False
        self.value = value
        self.file = file
        self.line = line
        self.column = column
        self.keys = keys

    @property
    def at(self) -> Location:
        """Return the place of the value."""
        return Location(self.file, self.line, self.column)

    def key_at(self, key: str) -> Location:
        """Return the place of a key of a map."""
        line, column = (self.keys or {}).get(key, (self.line, self.column))
        return Location(self.file, line, column)

    @property
    def map(self) -> dict[str, Node]:
        """Return the map, or an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    def like(self, value: Any, *, done: bool = False) -> Node:
        """Make plain Python data into a tree at this node's place."""
        keys: dict[str, tuple[int, int]] | None = None
        if isinstance(value, Node):
            return value
        if isinstance(value, dict):
            keys = dict.fromkeys(value, (self.line, self.column))
            value = {key: self.like(item, done=done) for key, item in value.items()}
        elif isinstance(value, list):
            value = [self.like(item, done=done) for item in value]
        node = Node(value, self.file, self.line, self.column, keys)
        node.done = done
        return node

    def describe(self) -> str:
        """Say what was found here, for a message."""
        return describe(self.value)


SHOWN: Final = 60


def describe(value: object) -> str:
    """Say what a value is, for a message."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            short = value if len(value) <= SHOWN else value[:SHOWN] + "..."
            return f"the text {short!r}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "a map with " + (", ".join(list(value)[:3]) or "nothing in it")
        case _:
            return f"a {type(value).__name__}"


def plain(node: Node) -> Any:
    """Return the tree as plain Python data."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value
