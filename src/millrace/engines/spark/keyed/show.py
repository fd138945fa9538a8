"""What a job with state per key keeps, read from its checkpoint; the job may run meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.checkpoint import committed
from millrace.engines.spark.keyed.kept import restored
from millrace.engines.spark.keyed.pages import page_of
from millrace.errors import OperationFailed


@dataclass(frozen=True, slots=True)
class Shown:
    """A key, its state and when its timers are due; all as of the last boundary."""

    key: dict[str, Any]
    state: dict[str, Any]
    timers: tuple[datetime, ...]
    last: datetime


def kept(
    session: SparkSession, checkpoint: Path, columns: Sequence[str], key: str | None
) -> Iterator[Shown]:
    """Return what is kept, of all keys or of one, in the order of the keys.

    A key is given as the text of its only column, or as the JSON object of several.
    """
    if committed(checkpoint).batch < 0:
        return
    texts = None if key is None else _texts(columns, key)
    rows = _stored(session, checkpoint, texts)
    for row in rows.orderBy("key").toLocalIterator():
        document = orjson.loads(row["kept"])
        state = restored(document["state"])
        timers = tuple(_moment(at) for at in sorted(document["timers"]))
        yield Shown(orjson.loads(row["key"]), state, timers, _moment(document["last"]))


def _stored(session: SparkSession, checkpoint: Path, keys: Sequence[str] | None) -> DataFrame:
    """The keys, all or some, and what is kept of each, as a text of JSON."""
    operators = session.read.format("state-metadata").load(str(checkpoint)).collect()
    for row in operators:
        if '"pages"' in str(row["operatorProperties"]):
            stored = session.read.format("statestore").options(
                operatorId=str(row["operatorId"]), stateVarName="pages"
            )
            pages = stored.load(str(checkpoint)).selectExpr(
                "user_map_key.page AS page", "CAST(user_map_value.kept AS STRING) AS kept"
            )
            if keys is not None:
                pages = pages.where(F.col("page").isin(*map(page_of, keys)))
            every = pages.selectExpr(
                "explode(from_json(kept, 'map<string,string>')) AS (key, kept)"
            )
            return every if keys is None else every.where(F.col("key").isin(*keys))
    raise OperationFailed("no-state", f"{checkpoint} holds no state per key", "name a state job")


def _texts(columns: Sequence[str], key: str) -> list[str]:
    """How a key may be written in the store: what looks like a number may be a text."""
    try:
        value = json.loads(key)
    except ValueError:
        value = key
    if isinstance(value, dict):
        return [_text({name: value[name] for name in columns if name in value})]
    (name, *_) = columns
    return [_text({name: key}), _text({name: value})]


def _text(key: dict[str, Any]) -> str:
    """As Spark's own to_json writes it."""
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)
