"""Steps that Spark analyzed once and that serve many queries.

What Millrace puts around the code of jobs differs between most of them by names alone: of streams,
topics, the job. Analyzing it takes longer than all else that making a query takes. So Spark sees it
once for each kind of rows, with numbers in place of names; each query puts its own names and its
own columns into what Spark made of that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from millrace.engines.spark.java import CATALYST, scala_object
from millrace.engines.spark.plans import (
    Sketch,
    Step,
    analyzed,
    frame_of,
    known,
    literal,
    logical,
    seq_of,
)
from millrace.errors import BrokenInvariant
from millrace.model.stream import Format, Stream

#: So many are kept; a driver needs a few for each kind of stream.
MOST = 128
#: Begins what stands in a template for a name; no name begins so.
_BLANK = "\x01name "
#: A text that `formats.named` wrote.
_NAMED = re.compile(r"/\*name\*/'((?:[^'\\]|\\.)*)'")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_templates: dict[tuple[Any, ...], _Template] = {}
_settings: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class _Template:
    """Analyzed steps over rows of some kind."""

    #: What stands for the plan below, and its columns.
    below: Any
    columns: Any
    #: What stands for each name.
    blanks: tuple[Any, ...]
    plan: Any

    def filled(self, below: Any, names: Sequence[str]) -> Any:
        """Return the plan over another one, with names."""
        pairs = getattr(scala_object("scala.collection.immutable.Map"), "from")
        given = pairs(self.columns.zip(below.output()))
        for blank, name in zip(self.blanks, names, strict=True):
            given = given.updated(blank, literal(name))
        over = pairs(seq_of([scala_object("scala.Tuple2").apply(self.below, below)]))
        return known(self.plan.transformUp(over).transformAllExpressions(given))


def frame_by_template(sketch: Sketch, *streams: Stream) -> DataFrame:
    """Return the frame of a sketch, without an analysis if one like it was analyzed before.

    Its columns have the numbers of the template's: in one query each kind of steps may be there
    once. Steps that read or write one of `streams` in Arrow are analyzed for themselves: they use
    a function that is the session's own.
    """
    if any(stream.format is Format.ARROW for stream in streams):
        return sketch.frame()
    steps, names = blanked(sketch.steps)
    key = (_settings_of(sketch.session), sketch.plan.schema().json(), steps)
    with _lock:
        template = _templates.get(key)
    if template is None:
        template = _made(replace(sketch, steps=steps), len(names))
        with _lock:
            while len(_templates) >= MOST:
                _templates.pop(next(iter(_templates)))
            _templates[key] = template
    return frame_of(sketch.session, template.filled(sketch.plan, names))


def _made(sketch: Sketch, names: int) -> _Template:
    """Let Spark analyze steps with blanks, over nothing but columns."""
    types = scala_object(f"{CATALYST}.types.DataTypeUtils")
    columns = types.toAttributes(sketch.plan.schema())
    below = logical("LocalRelation")(columns, seq_of([]), False, scala_object("scala.None"))  # noqa: FBT003 - not streaming
    plan = analyzed(replace(sketch, plan=below).frame())
    blanks = tuple(literal(f"{_BLANK}{number}") for number in range(names))
    made = _Template(below, columns, blanks, plan)
    if _BLANK in made.filled(below, [""] * names).toString():
        message = "a name in a template could not be found again"
        raise BrokenInvariant(message)
    return made


def blanked(steps: Sequence[Step]) -> tuple[tuple[Step, ...], list[str]]:
    """Steps with numbers in place of names, and the names."""
    names: dict[str, int] = {}

    def blank(found: re.Match[str]) -> str:
        name = _ESCAPED.sub(r"\1", found[1])
        return f"'{_BLANK}{names.setdefault(name, len(names))}'"

    made = [
        replace(step, texts=tuple(_NAMED.sub(blank, it) for it in step.texts)) for step in steps
    ]
    return tuple(made), list(names)


def _settings_of(session: SparkSession) -> str:
    """All settings of a session: casts and times are read by them."""
    if session not in _settings:
        settings: Any = session._jsparkSession
        _settings[session] = str(settings.sessionState().conf().getAllConfs().toString())
    return _settings[session]
