"""A batch that what is outside did not take."""

from __future__ import annotations

#: How much of what a program or a hook says is told.
SAID = 500


class Undone(Exception):
    """What became of it, in words that hold no secret."""


def one_line(said: bytes) -> str:
    """Return what was said in one line: of a failure in Spark's code only one is told."""
    return " ".join(said.decode("utf-8", "replace").split())
