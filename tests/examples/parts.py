"""The programs of the road-traffic example, which lie outside of any package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "road-traffic"
PIPELINE = FOLDER / "pipeline.yaml"


def part(name: str) -> Any:
    """Return a program of the example as a module; they import each other by their short names."""
    sys.path.insert(0, str(FOLDER))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
