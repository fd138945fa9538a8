"""Several outputs in one pass over the input.

Each output's results are a chain of projections and filters over the same input. They become one
array for each record, which is taken apart again; so the input is read and parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.java import CATALYST, CLASSIC, java_class, scala_object
from millrace.engines.spark.passing import SEAMS
from millrace.engines.spark.sink import FIRST, INDEX, KEY, OUT, VALUE
from millrace.engines.spark.source import BAD, ORIGIN
from millrace.errors import BrokenInvariant


def fanned(parts: Sequence[DataFrame], base: DataFrame) -> DataFrame:
    """Return the staged rows of all outputs; a malformed record has one row."""
    seams: dict[str, list[Any]] = {}
    choices = [_choice(part, place, base, seams) for place, part in enumerate(parts)]
    nothing = "CAST(NULL AS BINARY)"
    malformed = F.expr(f"array(named_struct('{OUT}', 0, '{KEY}', {nothing}, '{VALUE}', {nothing}))")
    rows = F.when(F.col(BAD), malformed).otherwise(F.array_compact(F.array(*choices)))
    exploded = _counted(base, seams).select(ORIGIN, BAD, F.posexplode(rows).alias("place", "row"))
    return exploded.select(
        f"row.{KEY}",
        f"row.{VALUE}",
        ORIGIN,
        BAD,
        f"row.{OUT}",
        F.col(f"row.{OUT}").alias(INDEX),
        (F.col("place") == 0).alias(FIRST),
    )


def _counted(base: DataFrame, seams: Mapping[str, Sequence[Any]]) -> DataFrame:
    """The input with counts of the rows that pass each stream inside."""
    if not seams:
        return base
    good = ~F.col(BAD)
    counts = [
        F.count(F.when(good & _all(conditions), 1)).alias(name.partition(":")[2])
        for name, conditions in seams.items()
    ]
    return base.observe(SEAMS, *counts)


def _all(conditions: Sequence[Any]) -> Column:
    """Whether a row meets all conditions; one that is unknown is not met."""
    column = java_class(f"{CLASSIC}.ExpressionUtils").column
    passes = F.lit(col=True)
    for item in conditions:
        passes &= F.coalesce(Column(column(item)), F.lit(col=False))
    return passes


def _choice(part: DataFrame, place: int, base: DataFrame, seams: dict[str, list[Any]]) -> Column:
    """What a record gives for one output: a struct, or null if it does not pass.

    `seams` gets the conditions of the streams inside that it passes on the way.
    """
    # It knows how to put aliases in.
    collapse = scala_object(f"{CATALYST}.optimizer.CollapseProject")
    node = part._jdf.queryExecution().analyzed()
    bottom = base._jdf.queryExecution().analyzed()
    column = java_class(f"{CLASSIC}.ExpressionUtils").column
    wanted = [node.output().apply(index) for index in range(2)]  # key and value come first
    conditions: list[Any] = []
    passed: dict[str, list[Any]] = {}
    while not node.fastEquals(bottom):
        name = node.nodeName()
        if name == "Project":
            aliases = collapse.getAliasMap(node)
            wanted = [collapse.replaceAlias(item, aliases) for item in wanted]
            for found in (conditions, *passed.values()):
                found[:] = [collapse.replaceAlias(item, aliases) for item in found]
        elif name == "Filter":
            for found in (conditions, *passed.values()):
                found.append(node.condition())
        elif name == "CollectMetrics":
            passed[node.name()] = []
        else:
            message = f"{name} in a chain of projections and filters"
            raise BrokenInvariant(message)
        node = node.child()
    seams |= passed
    key, value = (Column(column(item)) for item in wanted)
    row = F.struct(F.lit(place).alias(OUT), key.alias(KEY), value.alias(VALUE))
    return F.when(_all(conditions), row)
