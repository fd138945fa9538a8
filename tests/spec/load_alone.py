"""Load a file in a process of its own and tell, as JSON, what came of it and what that took.

    python tests/spec/load_alone.py FILE

The time is that of the processor for the whole process, its start and imports included; beside it
`pace` says how many times slower than usual the machine is just then. The memory is the most that
it ever had. What it asks of the network is told, too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from millrace.cli.views.diagnostics import diagnostics_text
from millrace.spec import load


def peak() -> int:
    """Return the most memory that this process ever had, in bytes.

    `getrusage` would tell of the process that started this one if that had more.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


#: So many steps, and how long a usual processor takes for them.
STEPS, USUAL_SECONDS = 2_000_000, 0.06


def pace() -> float:
    """Return how often slower this machine is just now than a usual one."""
    begun, total = time.process_time(), 0
    for step in range(STEPS):
        total += step
    return max(1.0, (time.process_time() - begun) / USUAL_SECONDS)


def main(file: str) -> None:
    """Load the file and write what there is to know to stdout."""
    asked: list[str] = []

    def listen(event: str, _arguments: tuple[Any, ...]) -> None:
        if event.startswith(("socket.", "urllib.", "http.", "subprocess.")):
            asked.append(event)

    sys.addaudithook(listen)
    loaded = load(file)
    shown = diagnostics_text(loaded.diagnostics, loaded.sources, loaded.left_out).plain
    found = {
        "loads": loaded.pipeline is not None,
        "codes": sorted({item.code for item in loaded.diagnostics}),
        "places": [str(item.at) for item in loaded.diagnostics if item.at is not None],
        "hints": [item.hint for item in loaded.diagnostics if item.hint],
        "problems": len(loaded.diagnostics),
        "shown": len(shown),
        "asked": asked,
        "seconds": time.process_time(),
        "peak": peak(),
        "pace": pace(),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
