"""Spark's logical plans, made by hand.

Each step of a DataFrame is a plan that Spark analyzes from its top, some ten milliseconds in a new
driver: a query of a hundred jobs has too many steps for that. What only picks, tests or counts
columns that are known already is built here without it. And each thing of Java's that Python holds
is a call to get it and one to let it go: what is used often is held on to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from millrace.engines.spark.java import (
    CATALYST,
    CLASSIC,
    java_class,
    java_member,
    scala_object,
)

_VIEWS = "org.apache.spark.sql.execution.command.ViewHelper"
#: The plans of frames that are there: that of a frame never changes.
_plans: WeakKeyDictionary[DataFrame, Any] = WeakKeyDictionary()


def analyzed(frame: DataFrame) -> Any:
    """Return the plan of a frame."""
    if frame not in _plans:
        _plans[frame] = frame._jdf.queryExecution().analyzed()
    return _plans[frame]


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """Return a plan as a frame."""
    made = java_member(f"{CLASSIC}.Dataset", "ofRows")(session._jsparkSession, plan)
    return DataFrame(made, session)


def frame_of_sql(session: SparkSession, query: str) -> DataFrame:
    """Return what a text of SQL says as a frame."""
    return DataFrame(session._jsparkSession.sql(query), session)


def set_active(session: SparkSession) -> None:
    """Let what this thread says in SQL be read by the settings of a session, casts above all."""
    java_member(f"{CLASSIC}.SparkSession", "setActiveSession")(session._jsparkSession)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a sketch: columns, conditions or, under a name, counts, as SQL says them."""

    kind: str
    texts: tuple[str, ...]
    name: str = ""

    def over(self, below: Any) -> Any:
        """Return the step on a plan; not analyzed."""
        if self.kind == "where":
            return logical("Filter")(_parser().parseExpression(self.texts[0]), below)
        if self.kind == "observe":
            return observed(below, self.name, *self.texts)
        return logical("Project")(_named(self.texts), below)


@dataclass(frozen=True, slots=True)
class Sketch:
    """Steps on a plan, said in SQL, that Spark analyzes all at once when they become a frame."""

    session: SparkSession
    plan: Any
    steps: tuple[Step, ...] = ()

    @classmethod
    def on(cls, frame: DataFrame) -> Sketch:
        """Begin on the plan of a frame."""
        return cls(frame.sparkSession, analyzed(frame))

    def select(self, *columns: str) -> Sketch:
        """Pick or make columns."""
        return self._with(Step("select", columns))

    def where(self, condition: str) -> Sketch:
        """Leave rows out that don't meet a condition."""
        return self._with(Step("where", (condition,)))

    def observe(self, name: str, *counts: str) -> Sketch:
        """Let the query report counts of the rows under a name."""
        return self._with(Step("observe", counts, name))

    def _with(self, step: Step) -> Sketch:
        return replace(self, steps=(*self.steps, step))

    def frame(self) -> DataFrame:
        """Return the frame; raises what Spark says of steps that it does not understand."""
        return frame_of(self.session, reduce(lambda plan, it: it.over(plan), self.steps, self.plan))


def logical(name: str) -> Any:
    """Return the class of an operator."""
    return java_class(f"{CATALYST}.plans.logical.{name}")


def expression(name: str) -> Any:
    """Return the class of an expression."""
    return java_class(f"{CATALYST}.expressions.{name}")


def name_of(node: Any) -> str:
    """Return what Spark calls an operator or expression."""
    return str(node.nodeName())


def children(node: Any) -> list[Any]:
    """Return what is right below."""
    return items(node.children())


def items(seq: Any) -> list[Any]:
    """Return a sequence of Scala's as a list."""
    return [seq.apply(index) for index in range(seq.size())]


def seq_of(values: Sequence[Any]) -> Any:
    """Return a list as a sequence of Scala's."""
    found = scala_object("scala.collection.immutable.Nil")
    for value in reversed(values):
        found = found.prepended(value)
    return found


def picked(plan: Any, count: int, *, unless_last: bool) -> Any:
    """Return the first columns of a plan; `unless_last` of rows whose last column is not true."""
    columns, below = plan.output(), plan
    if unless_last:
        below = logical("Filter")(expression("Not")(columns.last()), plan)
    return logical("Project")(columns.take(count), below)


def literal(value: Any) -> Any:
    """Return a value as an expression."""
    return scala_object(f"{CATALYST}.expressions.Literal").apply(value)


def aliased(value: Any, name: str) -> Any:
    """Return an expression as a column of a name."""
    number = scala_object(f"{CATALYST}.expressions.NamedExpression").newExprId()
    none, nil = scala_object("scala.None"), seq_of([])
    return expression("Alias")(value, name, number, nil, none, nil)


def counting(unless: Any, name: str) -> Any:
    """Return the number of rows, but for those that meet a condition, as a column of a name."""
    return _count(expression("If")(unless, _nothing(), literal(1)), name)


def _count(value: Any, name: str) -> Any:
    """The number of rows for which there is a value, as a column of a name."""
    count = java_class(f"{CATALYST}.expressions.aggregate.Count")(seq_of([value]))
    return aliased(count.toAggregateExpression(), name)


def _nothing() -> Any:
    whole = scala_object("org.apache.spark.sql.types.IntegerType")
    return scala_object(f"{CATALYST}.expressions.Literal").create(None, whole)


def counted(plan: Any, name: str, what: str) -> Any:
    """Return a plan whose rows are counted, but for those whose last column is true.

    The count is `what` among those that the query observes as `name`.
    """
    total = counting(plan.output().last(), what)
    return known(logical("CollectMetrics")(name, seq_of([total]), plan, 0))


def observed(plan: Any, name: str, *counts: str) -> Any:
    """Return a plan whose rows the query counts under a name; not analyzed yet."""
    return logical("CollectMetrics")(name, _named(counts), plan, 0)


def _named(columns: Sequence[str]) -> Any:
    """Columns as Spark reads them, by one look at their text; each of a new number."""
    return _parser().parsePlan(f"SELECT {', '.join(columns)}").projectList()


def _parser() -> Any:
    return scala_object(f"{CATALYST}.parser.CatalystSqlParser")


def set_view(session: SparkSession, name: str, plan: Any) -> None:
    """Let SQL of a session know a plan by a name."""
    none = scala_object("scala.None")
    view = scala_object(_VIEWS).createTemporaryViewRelation(
        java_class(f"{CATALYST}.TableIdentifier")(name),
        session._jsparkSession,
        False,  # noqa: FBT003 - whether one of this name is to be forgotten: there is none
        _nobody(),
        none,
        plan,
        plan,
        seq_of([]),
        none,
    )
    session._jsparkSession.sessionState().catalog().createTempView(name, view, True)  # noqa: FBT003


def _nobody() -> Any:
    """Who has a view of a name already."""
    nothing = scala_object("scala.collection.immutable.Map").empty()
    return nothing.withDefaultValue(scala_object("scala.None"))


def known(plan: Any) -> Any:
    """Return a plan that Spark need not look at: all of its columns are those of plans it knows."""
    plan.setAnalyzed()
    return plan
