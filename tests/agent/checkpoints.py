"""Checkpoints as Spark writes them, made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_checkpoint(
    job: Path,
    positions: dict[str, dict[int, int]],
    at: int = 1000,
    version: int = 1,
) -> None:
    """Give a job's folder a checkpoint with one commit, `at` so many seconds."""
    place = job / "checkpoint"
    for name in ("commits", "offsets"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"x"}')
    lines = [json.dumps({topic: parts}) for topic, parts in positions.items()]
    text = "\n".join(["v1", '{"batchWatermarkMs":0,"conf":{}}', *lines])
    (place / "offsets" / "4").write_text(text)
    (place / "commits" / "4").write_text(f"v{version}\n{{}}")
    os.utime(place / "commits" / "4", (at, at))
