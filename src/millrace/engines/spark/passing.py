"""Neighbouring streams inside a query whose jobs only pick and test columns.

Each such stream by itself would be a filter and a count, which Spark plans and compiles one by one.
Together they are one column that says how many of them a row passes, one operator that counts them
all, and one filter: a query of a hundred jobs is planned as soon as one of a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from millrace.engines.spark.java import CATALYST, java_class, scala_object
from millrace.engines.spark.plans import (
    aliased,
    analyzed,
    counting,
    expression,
    items,
    literal,
    logical,
    name_of,
    seq_of,
)

#: What the counts of several streams are called among those that a query observes.
SEAMS = "seams:"
_PASSED = "__millrace_passed"
_PLAIN = "AttributeReference"


@dataclass(frozen=True, slots=True)
class Passing:
    """Streams, in the direction of the data, whose rows are those of a frame that pass tests.

    The frame's last two columns are those that travel.
    """

    below: DataFrame
    #: The columns of the last stream and those that travel, as Spark picks them from the frame.
    columns: Any
    streams: tuple[str, ...] = ()
    #: What rows of each stream must meet, beside those of the streams before.
    tests: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, below: DataFrame) -> Passing:
        """Return a frame that no row has to pass anything for."""
        return cls(below, analyzed(below).output())

    def rows(self) -> Any:
        """Return the plan of the last stream's columns with all rows, passed or not."""
        return logical("Project")(self.columns, analyzed(self.below))

    def then(self, stream: str, plan: Any, rows: Any) -> Passing | None:
        """Return these and one more stream, whose plan over `rows` this is.

        None where that plan does more than to pick and test.
        """
        collapse = scala_object(f"{CATALYST}.optimizer.CollapseProject")
        projects, tests = [], []
        node = plan
        while not node.fastEquals(rows):
            name = name_of(node)
            if name == "Filter":
                tests.append(node.condition().right())  # without the row's being malformed
            elif name == "Project" and _picks(node):
                aliases = collapse.getAliasMap(node)
                tests = [collapse.replaceAlias(test, aliases) for test in tests]
                projects.append(node)
            else:
                return None
            node = node.child()
        aliases = collapse.getAliasMap(self.columns)
        tests = [collapse.replaceAlias(test, aliases) for test in reversed(tests)]
        columns = self.columns
        for node in reversed(projects):
            columns = collapse.buildCleanedProjectList(node.projectList(), columns)
        return Passing(self.below, columns, (*self.streams, stream), (*self.tests, tuple(tests)))

    def plan(self) -> Any:
        """Return the plan of the last stream's rows, with counts of all streams."""
        below = analyzed(self.below)
        if not self.streams:
            return below
        bad, name = below.output().last(), f"{SEAMS}{self.streams[0]}"
        if not any(self.tests):
            counts = [counting(bad, stream) for stream in self.streams]
            counted = logical("CollectMetrics")(name, seq_of(counts), below, 0)
            return logical("Project")(self.columns, counted)
        passed = aliased(self._passed(bad), _PASSED)
        numbered = logical("Project")(below.output().appended(passed), below)
        number = numbered.output().last()
        counts = []
        for place, stream in enumerate(self.streams, 1):
            fails = expression("LessThan")(number, literal(place))
            counts.append(counting(expression("Or")(bad, fails), stream))
        counted = logical("CollectMetrics")(name, seq_of(counts), numbered, 0)
        last = expression("EqualTo")(number, literal(len(self.streams)))
        return logical("Project")(self.columns, logical("Filter")(last, counted))

    def _passed(self, bad: Any) -> Any:
        """How many streams a row passes; a malformed one passes all."""
        pair, whole = java_class("scala.Tuple2"), literal(len(self.streams))
        cases = [pair(bad, whole)]
        for place, tests in enumerate(self.tests):
            if tests:
                cases.append(pair(expression("Not")(_known(tests)), literal(place)))
        return expression("CaseWhen")(seq_of(cases), java_class("scala.Some")(whole))


def _known(tests: tuple[Any, ...]) -> Any:
    """Whether all tests are met; one that is unknown is not."""
    both = reduce(expression("And"), tests)
    return expression("Coalesce")(seq_of([both, literal(False)]))  # noqa: FBT003 - a value


def _picks(project: Any) -> bool:
    """Whether columns are only picked, perhaps by other names."""
    for column in items(project.projectList()):
        plain = column.child() if name_of(column) == "Alias" else column
        if name_of(plain) != _PLAIN:
            return False
    return True
