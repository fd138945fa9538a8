"""Several outputs in one pass over the input.

Each output's results are a chain of projections and filters over the same input. They become one
array for each record, which is taken apart again; so the input is read and parsed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.java import CATALYST, CLASSIC, java_class, scala_object
from millrace.engines.spark.sink import FIRST, INDEX, KEY, OUT, VALUE
from millrace.engines.spark.source import BAD, ORIGIN
from millrace.errors import BrokenInvariant


def fanned(parts: Sequence[DataFrame], base: DataFrame) -> DataFrame:
    """Return the staged rows of all outputs; a malformed record has one row."""
    choices = [_choice(part, place, base) for place, part in enumerate(parts)]
    nothing = "CAST(NULL AS BINARY)"
    malformed = F.expr(f"array(named_struct('{OUT}', 0, '{KEY}', {nothing}, '{VALUE}', {nothing}))")
    rows = F.when(F.col(BAD), malformed).otherwise(F.array_compact(F.array(*choices)))
    exploded = base.select(ORIGIN, BAD, F.posexplode(rows).alias("place", "row"))
    return exploded.select(
        f"row.{KEY}",
        f"row.{VALUE}",
        ORIGIN,
        BAD,
        f"row.{OUT}",
        F.col(f"row.{OUT}").alias(INDEX),
        (F.col("place") == 0).alias(FIRST),
    )


def _choice(part: DataFrame, place: int, base: DataFrame) -> Column:
    """What a record gives for one output: a struct, or null if it does not pass."""
    # It knows how to put aliases in.
    collapse = scala_object(f"{CATALYST}.optimizer.CollapseProject")
    column = java_class(f"{CLASSIC}.ExpressionUtils").column
    node = part._jdf.queryExecution().analyzed()
    bottom = base._jdf.queryExecution().analyzed()
    wanted = [node.output().apply(index) for index in range(2)]  # key and value come first
    conditions: list[Any] = []
    while not node.fastEquals(bottom):
        name = node.nodeName()
        if name == "Project":
            aliases = collapse.getAliasMap(node)
            wanted = [collapse.replaceAlias(item, aliases) for item in wanted]
            conditions = [collapse.replaceAlias(item, aliases) for item in conditions]
        elif name == "Filter":
            conditions.append(node.condition())
        else:
            message = f"{name} in a chain of projections and filters"
            raise BrokenInvariant(message)
        node = node.child()
    key, value = (Column(column(item)) for item in wanted)
    row = F.struct(F.lit(place).alias(OUT), key.alias(KEY), value.alias(VALUE))
    passes = F.lit(col=True)
    for item in conditions:
        passes &= F.coalesce(Column(column(item)), F.lit(col=False))
    return F.when(passes, row)
