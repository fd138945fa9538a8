"""The same work in Bytewax, two processes: what a Python user would take instead."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from bench.streams.child import Talker
from bench.streams.kinds import KINDS
from bench.streams.rates import LIMIT_SECONDS, figures
from bench.streams.systems import HERE, Rig
from bench.streams.topics import End
from millrace.machine import free_ports

PROCESSES = 2
BYTEWAX = "bytewax"


def windowed(rig: Rig, source: str, count: int) -> dict[str, Any]:
    """Count in windows of ten seconds; its imports are not counted."""
    sink = rig.name("out-bytewax")
    rig.make(sink)
    end = End(rig.boot, sink)
    end.count()
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(PROCESSES))
    environment = {"FLOW": f"{rig.boot} {source} {sink}", "PYTHONPATH": str(HERE.parents[1])}
    try:
        with ExitStack() as stack:
            flows = []
            for number in range(PROCESSES):
                command = [sys.executable, "-m", "bytewax.run", "bench.streams.flow:flow"]
                command += ["-i", str(number), "-a", addresses]
                log = rig.place / f"bytewax-{number}.log"
                flows.append(Talker(command, log, environment=environment))
                stack.callback(flows[-1].end)
            began = max(flow.hear(60)[0] for flow in flows)
            arrival = end.wait(KINDS["windows"].results(count), LIMIT_SECONDS, lambda: None)
    finally:
        end.close()
        rig.drop(sink)
    found = figures(arrival.last - began, count)
    return {"system": BYTEWAX, "kind": "windows", "mode": "drain", **found}
