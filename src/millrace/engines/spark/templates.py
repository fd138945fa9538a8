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

from millrace.engines.spark.java import CATALYST, CLASSIC, java_member, scala_object
from millrace.engines.spark.plans import (
    Sketch,
    Step,
    analyzed,
    frame_of,
    items,
    known,
    literal,
    logical,
    seq_of,
    set_active,
)
from millrace.errors import BrokenInvariant
from millrace.model.stream import Format, Stream

#: So many are kept; a driver needs a few for each kind of stream.
MOST = 128
#: Begins what stands in a template for a name; no name begins so.
_BLANK = "\x01name "
#: Begins what stands for a name while a template is tried.
_MARK = "\x02name "
#: A text that `formats.named` wrote.
_NAMED = re.compile(r"/\*name\*/'((?:[^'\\]|\\.)*)'")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

#: The one that was used last comes last.
kept: dict[tuple[Any, ...], _Template] = {}
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
    if any(stream.format is Format.ARROW for stream in streams) or _to_be_seen(sketch.plan):
        return sketch.frame()
    steps, names = blanked(sketch.steps)
    key = (_settings_of(sketch.session), sketch.plan.schema().json(), steps)
    with _lock:
        template = kept.pop(key, None)
        if template is not None:
            kept[key] = template  # now the one that was used last
    if template is None:
        template = _made(replace(sketch, steps=steps), len(names))
        with _lock:
            while len(kept) >= MOST:
                kept.pop(next(iter(kept)))
            kept[key] = template
    return frame_of(sketch.session, template.filled(sketch.plan, names))


def _to_be_seen(plan: Any) -> bool:
    """Whether Spark has to look at a plan that was made by hand: branches may not fit together."""
    union = scala_object(f"{CATALYST}.trees.TreePattern").UNION()
    return bool(not plan.resolved() or plan.containsPattern(union))


def _made(sketch: Sketch, names: int) -> _Template:
    """Let Spark analyze steps with blanks, over nothing but columns."""
    set_active(sketch.session)  # by its settings texts are parsed
    below = _columns(sketch.plan.schema())
    plan = analyzed(replace(sketch, plan=below).frame())
    # A frame notes its number in a set that all copies of its plan share, and no lock guards.
    plan.unsetTagValue(dataset_tag())
    blanks = tuple(literal(f"{_BLANK}{number}") for number in range(names))
    made = _Template(below, below.output(), blanks, plan)
    _check(made, _columns(sketch.plan.schema()))
    return made


def dataset_tag() -> Any:
    """Return the name of the set in which frames note their numbers on a plan."""
    return java_member(f"{CLASSIC}.Dataset", "DATASET_ID_TAG")()


def _columns(schema: Any) -> Any:
    """A plan of nothing but columns, with numbers of their own."""
    columns = scala_object(f"{CATALYST}.types.DataTypeUtils").toAttributes(schema)
    return logical("LocalRelation")(columns, seq_of([]), False, scala_object("scala.None"))  # noqa: FBT003 - not streaming


def _check(made: _Template, below: Any) -> None:
    """Raise unless all names and columns of a template can be replaced."""
    marks = [f"{_MARK}{number}." for number in range(len(made.blanks))]
    plan, said, whole = made.filled(below, marks), "", True
    while not plan.fastEquals(below):
        said += " ".join(str(each.sql()) for each in items(plan.expressions()))
        whole = whole and bool(plan.missingInput().isEmpty())
        plan = plan.child()
    if not whole or _BLANK in said or any(mark not in said for mark in marks):
        message = f"a template does not fit what it was made of: {said}"
        raise BrokenInvariant(message)


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
