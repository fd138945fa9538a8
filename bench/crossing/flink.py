"""A chain of jobs that pass records on, on one Kafka: Millrace on Spark against Flink by REST.

Cold is from the start of the engine's processes until the first record is through, warm from the
start of the third deployment. On a machine that others use, the processor time of the engine's
processes until then tells more than the clock.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.crossing.cost import Spent, cores_of, memory_mb
from bench.crossing.figures import CrossingPart, medians
from bench.crossing.setting import Setting
from bench.crossing.sides import Side, flink_side, hand_side, made_kit, millrace_side, topics
from bench.streams.pipeline import Probe
from bench.streams.results import Bar, median, ratio
from bench.streams.topics import QUIET
from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Folders, fetch_jars, find_java

LIMIT_SECONDS = 240.0
#: Which deployment is the warm one, by its number.
WARM = 2
TIMES, FASTER = 2.0, 5.0
DURABLE, FUSED, FLINK, WHOLE = "millrace", "millrace, transient", "flink", "flink, one job"
HAND, BARE = "spark by hand", "spark, bare queries"
SYSTEMS = (FLINK, DURABLE, HAND, BARE, FUSED, WHOLE)
_COLUMNS = ("cold_seconds", "cold_cpu_seconds", "warm_seconds", "warm_cpu_seconds", "p50_ms",
            "cold_p50_ms", "remove_seconds", "memory_mb", "cold_memory_mb")  # fmt: skip


def measure(setting: Setting) -> CrossingPart:
    """Run all by turns on one Kafka."""
    part, cache = CrossingPart("flink"), Folders.of().cache
    java = find_java(cache)
    jars, connector = fetch_jars(["kafka", "spark-kafka"], java, cache)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        kit = made_kit(place, java, cache)
        kafka = ManagedKafka(place / "kafka", java, jars)
        try:
            kafka.start()
            boot = kafka.status().clients["java"]["bootstrap.servers"]
            for number in range(setting.runs):
                for system in SYSTEMS[:: -1 if number % 2 else 1]:
                    name = f"r{number}{SYSTEMS.index(system)}"
                    own = place / name
                    opened: dict[str, Any] = {
                        FLINK: partial(
                            flink_side, place=own, kit=kit, first=f"{name}d0", whole=False
                        ),
                        WHOLE: partial(
                            flink_side, place=own, kit=kit, first=f"{name}d0", whole=True
                        ),
                        DURABLE: partial(millrace_side, transient=False),
                        HAND: partial(hand_side, place=own, java=java, jars=connector, bare=False),
                        BARE: partial(hand_side, place=own, java=java, jars=connector, bare=True),
                        FUSED: partial(millrace_side, transient=True),
                    }
                    began = time.monotonic()
                    run = _run(opened[system](boot, setting.jobs), boot, name, began, setting)
                    part.runs.append({"round": number, "system": system, **run})
                    setting.say(f"{system}: {_told(run)}")
        finally:
            kafka.stop()
    judge(part, setting)
    return part


def _told(run: dict[str, Any]) -> str:
    return (
        f"cold {run['cold_seconds']:.1f} s ({run['cold_cpu_seconds']:.1f} of a core), "
        f"warm {run['warm_seconds']:.1f} s ({run['warm_cpu_seconds']:.1f} of a core), "
        f"p50 {run['p50_ms']:.1f} ms, {run['memory_mb']:,.0f} MB ({cores_of(run['memories'])})"
    )


def _run(
    opened: AbstractContextManager[Side], boot: str, name: str, began: float, setting: Setting
) -> dict[str, Any]:
    """Deploy a chain again and again; the last one is measured while it runs."""
    admin = AdminClient({"bootstrap.servers": boot, **QUIET})
    found: dict[str, Any] = {"throughs": [], "cpu": [], "removes": [], "started": [], "loads": []}
    with opened as side, ThreadPoolExecutor(1) as pool:
        found["up_seconds"] = time.monotonic() - began
        for number in range(WARM + 1):
            chain = f"{name}d{number}"
            since = began if number == 0 else time.monotonic()
            used = Spent(side.pids)
            begun = pool.submit(side.deploy, chain)
            ends = [topics(chain, setting.jobs)[place] for place in (0, -1)]
            _await_topics(admin, ends, begun)
            with closing(Probe(boot, *ends)) as probe:
                found["throughs"].append(probe.through(b"x" * 100, LIMIT_SECONDS) - since)
                # From nothing all counts, what was used before the chain was asked for, too.
                found["cpu"].append(used.total(whole=number == 0))
                found["loads"].append(os.getloadavg()[0])
                begun.result(LIMIT_SECONDS)
                found["started"].append(time.monotonic() - since)
                if number == 0:
                    found["cold_hops"] = _hops(probe, setting.records)
                    found["cold_memories"] = memory_mb(side.pids)
                if number == WARM:
                    found["hops"] = _hops(probe, setting.records)
                    found["memories"] = memory_mb(side.pids)
            since = time.monotonic()
            side.remove(chain)
            found["removes"].append(time.monotonic() - since)
    return {
        **found,
        "cold_seconds": found["throughs"][0],
        "warm_seconds": found["throughs"][WARM],
        "cold_cpu_seconds": found["cpu"][0],
        "warm_cpu_seconds": found["cpu"][WARM],
        "p50_ms": median(found["hops"]),
        "cold_p50_ms": median(found["cold_hops"]),
        "remove_seconds": found["removes"][WARM],
        "memory_mb": sum(found["memories"].values()),
        "cold_memory_mb": sum(found["cold_memories"].values()),
    }


def _hops(probe: Probe, count: int) -> list[float]:
    """How long records take, one after another, in milliseconds."""
    found = []
    for _ in range(count):
        began = time.monotonic()
        found.append((probe.through(b"y" * 100, 60.0) - began) * 1e3)
    return found


def _await_topics(admin: AdminClient, names: Sequence[str], begun: Future[None]) -> None:
    """Wait until topics are there; raises what the deployment raised."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        if begun.done():
            begun.result()
        with suppress(KafkaException):
            if set(names) <= set(admin.list_topics(timeout=1).topics):
                return
        time.sleep(0.05)
    message = f"there are no topics {', '.join(names)} in {LIMIT_SECONDS:.0f} s"
    raise TimeoutError(message)


def judge(part: CrossingPart, setting: Setting) -> None:
    """Make the table and the bars of the runs."""
    for system in SYSTEMS:
        part.rows[system] = medians((r for r in part.runs if r["system"] == system), _COLUMNS)
    flink, ours, fused = (part.rows[system] for system in (FLINK, DURABLE, FUSED))

    def against(row: dict[str, float | None], column: str) -> float | None:
        return ratio(row.get(column), flink.get(column))

    jobs = setting.jobs
    part.bars += [
        Bar(f"{jobs} jobs, cold: against Flink's", against(ours, "cold_seconds"), 1.0),
        Bar(f"{jobs} jobs, warm: against Flink's", against(ours, "warm_seconds"), TIMES),
        Bar("transient, per record: against Flink's jobs", against(fused, "p50_ms"), 1 / FASTER),
        Bar("transient, cold: against Flink's jobs", against(fused, "cold_seconds"), 1.0),
        Bar("transient, warm: against Flink's jobs", against(fused, "warm_seconds"), 1.0),
    ]
    part.notes.append(
        f"{jobs} jobs; memory of all processes but the broker, after {WARM + 1} chains"
    )
