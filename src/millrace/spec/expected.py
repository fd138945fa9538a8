"""What a shape asks for, in words."""

from __future__ import annotations

from millrace.model.shape import (
    Choice,
    Either,
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


def expected(shape: Shape) -> str:
    """Say what a shape asks for, short enough for a message."""
    match shape:
        case Text(refers):
            return "a text" if refers is None else f"the name of one of the {refers}"
        case Whole(least, most):
            until = "on" if most is None else f"to {most}"
            return "a whole number" if least is None else f"a whole number from {least} {until}"
        case Number():
            return "a number"
        case Flag():
            return "true or false"
        case Choice():
            return "one of " + ", ".join(shape.words)
        case Kind():
            return "one of " + ", ".join(shape.words) + ", or the name of a plug-in"
        case Measure(of):
            return str(of.EXPECTED)
        case Several(of):
            return f"{expected(of)}, or a list of them"
        case Table(of):
            return f"a map of names to {expected(of)}"
        case Record():
            keys = ", ".join(shape.keys[:6]) + (", ..." if len(shape.keys) > 6 else "")
            short = f", or just its {shape.short}" if shape.short else ""
            return f"a map with {keys}{short}"
        case Either(options):
            return ", or ".join(expected(option) for option in options)
