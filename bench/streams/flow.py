"""The windows of the benchmark in Bytewax; `python -m bytewax.run bench.streams.flow:flow`.

`FLOW` in the environment holds the broker's address, the source and the sink.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

_STARTS_AT_BEGINNING = -2


def _read(message: Any) -> tuple[str, datetime]:
    row = json.loads(message.value)
    return row["road"], datetime.fromisoformat(row["at"])


def _written(found: tuple[str, tuple[int, int]]) -> KafkaSinkMessage[bytes, bytes]:
    road, (window, count) = found
    text = json.dumps({"window": window, "road": road, "n": count})
    return KafkaSinkMessage(None, text.encode())  # type: ignore[arg-type]


def _flow(boot: str, source: str, sink: str) -> Dataflow:
    made = Dataflow("windows")
    start = KafkaSource([boot], [source], starting_offset=_STARTS_AT_BEGINNING, tail=False)
    rows = op.map("read", op.input("in", made, start), _read)
    clock = win.EventClock(lambda at: at, wait_for_system_duration=timedelta(0))
    first = datetime(2023, 1, 1, tzinfo=UTC)
    windows = win.TumblingWindower(length=timedelta(seconds=10), align_to=first)
    counted = win.fold_window(
        "count", rows, clock, windows, lambda: 0, lambda n, _: n + 1, lambda a, b: a + b
    )
    results = op.map("written", counted.down, _written)
    op.output("out", results, KafkaSink([boot], sink, add_config={"linger.ms": "20"}))
    return made


flow = _flow(*os.environ["FLOW"].split())
print("ready", flush=True)
