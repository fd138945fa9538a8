"""Carries a record's origin through a user's query.

A query such as `SELECT a FROM raw WHERE b > 0` is a chain of projections and filters over its
input. Such a chain is built again with two more columns: where the record came from, and whether it
is malformed; filters let malformed rows pass. So one query writes results and dead letters, each
with its origin, and a successor can tell what is already there. What is no such chain (aggregates,
joins, DISTINCT, subqueries) loses the origin: the names of the operators say why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from millrace.engines.spark.java import CATALYST, scala_object
from millrace.engines.spark.plans import (
    analyzed,
    children,
    expression,
    items,
    logical,
    name_of,
    seq_of,
)
from millrace.engines.spark.source import Source

#: Operators that only rename what is below them.
_NAMES_ONLY = frozenset({"SubqueryAlias", "View"})
#: Operators of which is known that they have one below; to ask for all is three calls.
_ONE_BELOW = frozenset({"Project", "Filter", "SubqueryAlias"})
_KEEPS_STATE = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "Join",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


@dataclass(frozen=True, slots=True)
class Operators:
    """What a query is made of, by the names of Spark's logical operators."""

    names: tuple[str, ...]
    python: bool
    #: Whether it keeps state between batches.
    stateful: bool
    #: What Spark's own state is made of: a version of the code that says otherwise can't go on.
    state: tuple[str, ...] = ()


class _Lost(Exception):
    pass


def operators(frames: Sequence[DataFrame]) -> Operators:
    """Return the operators above the inputs; those that parse an input are not the user's."""
    names: list[str] = []
    state: list[str] = []
    tops = [analyzed(frame) for frame in frames]
    pending = list(tops)
    while pending:
        node = pending.pop()
        name = name_of(node)
        if name == "View":
            continue
        names.append(name)
        below = [node.child()] if name in _ONE_BELOW else children(node)
        if name in _KEEPS_STATE and all(n.isStreaming() for n in below):
            state.append(_state_of(node, name))
        pending.extend(below)
    python = any(top.containsPattern(_python()) for top in tops)
    return Operators(tuple(dict.fromkeys(names)), python, bool(state), tuple(state))


def _state_of(node: Any, name: str) -> str:
    """What an operator's state is made of: its keys, and what it adds up or compares."""
    if name == "Aggregate":
        keys = [_plain(key) for key in items(node.groupingExpressions())]
        sums = [s for item in items(node.aggregateExpressions()) for s in _sums(item)]
        return f"{', '.join(sums)} by {', '.join(keys) or 'nothing'}"
    if name == "Join":
        return f"{node.joinType()} join on {_plain(node.condition())}"
    if name in ("Deduplicate", "DeduplicateWithinWatermark"):
        return f"{name} of {', '.join(map(_plain, items(node.keys())))}"
    return name


def _sums(expression: Any) -> list[str]:
    """The sums in an expression; what is made of them when a batch ends is no state."""
    if name_of(expression) == "AggregateExpression":
        return [_plain(expression)]
    return [found for child in children(expression) for found in _sums(child)]


def _plain(expression: Any) -> str:
    """An expression without the numbers that Spark gives to columns."""
    return re.sub(r"#\d+L?", "", str(expression.toString()))


def _python() -> Any:
    return scala_object(f"{CATALYST}.trees.TreePattern").PYTHON_UDF()


def _uses_python(top: Any, sources: Sequence[Source]) -> bool:
    """Whether a job's own code calls Python; that of jobs before it in a query does not count."""
    udf = _python()
    if not top.containsPattern(udf):
        return False
    bases = [analyzed(source.base) for source in sources]
    pending = [top]
    while pending:
        node = pending.pop()
        if not node.containsPattern(udf):
            continue
        if any(node.fastEquals(base) for base in bases):
            continue
        own = node.expressions()
        if any(own.apply(index).containsPattern(udf) for index in range(own.size())):
            return True
        pending.extend(children(node))
    return False


def carried(frame: DataFrame, sources: list[Source], *, settled: bool = True) -> Any:
    """Return the query's plan with origin and malformed flag as two more columns, or None.

    Unless `settled`, it stands on all rows of inputs whose tests are put off (see `passing`).

    Malformed rows pass through the whole chain with empty columns. Spark's own functions take
    that; a user's function would fail, and with it the job.
    """
    top = analyzed(frame)
    if any(source.marked for source in sources) and _uses_python(top, sources):
        return None
    try:
        return _Chain(sources, settled=settled).rebuilt(top)
    except _Lost:
        return None


class _Chain:
    """Builds a plan again from its top down to the inputs."""

    def __init__(self, sources: list[Source], *, settled: bool) -> None:
        self._sources = sources
        self._settled = settled
        self._bases = [analyzed(source.base) for source in sources]
        #: Whether their last two columns are those that travel.
        self._carry = [source.carries for source in sources]
        self._used: set[int] = set()

    def rebuilt(self, node: Any) -> Any:
        """Return the node over a rebuilt child; raises _Lost for what is no chain."""
        name = name_of(node)
        if name == "Union":
            below = [self.rebuilt(child) for child in children(node)]
            return logical("Union")(seq_of(below), node.byName(), node.allowMissingCol())
        if (base := self._base_below(node, name)) is not None:
            return base
        if name in _NAMES_ONLY:
            return self.rebuilt(node.child())
        if name == "Project":
            below = self.rebuilt(node.child())
            travelling = below.output().takeRight(2)
            return logical("Project")(node.projectList().appendedAll(travelling), below)
        if name == "Filter":
            below = self.rebuilt(node.child())
            passes = expression("Or")(below.output().last(), node.condition())
            return logical("Filter")(passes, below)
        raise _Lost

    def _base_below(self, node: Any, name: str) -> Any:
        """The input itself, where the node is the view of one: each input once."""
        if name not in ("View", "Project"):
            return None
        top = node.child() if name == "View" else node
        for found in _below_view(top, name_of(top) if name == "View" else name):
            for index, base in enumerate(self._bases):
                if not found.fastEquals(base):
                    continue
                # Spark's real-time mode refuses a source twice.
                if index in self._used or not self._carry[index]:
                    raise _Lost
                self._used.add(index)
                passing = self._sources[index].passing
                return passing.plan() if passing is not None and self._settled else base
        return None


def _below_view(top: Any, name: str) -> Iterator[Any]:
    """What may be the input below what `Source.view` puts on it: columns, a test, counts."""
    for step in ("Project", "Filter", "CollectMetrics"):
        if name == step:
            top = top.child()
            yield top
            name = name_of(top)
        elif step == "Project":
            return
