"""Where Millrace keeps what: state that must last, and caches that may go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, slots=True)
class Folders:
    """`state` holds streams, checkpoints and ledgers; `cache` the jars."""

    state: Path
    cache: Path

    @classmethod
    def of(cls, home: Path | None = None) -> Folders:
        """Return the folders: below `home` or MILLRACE_HOME, else where the system wants them.

        The cache stays the system's, so that a second home does not fetch the jars again; it has
        a variable of its own, MILLRACE_CACHE.
        """
        chosen = home or (Path(named) if (named := os.environ.get("MILLRACE_HOME")) else None)
        state = (chosen or platformdirs.user_state_path("millrace")).absolute()
        cache = os.environ.get("MILLRACE_CACHE") or platformdirs.user_cache_path("millrace")
        return cls(state, Path(cache).absolute())

    def pipeline(self, name: str) -> Path:
        """Return the folder of a pipeline."""
        return self.state / "pipelines" / name
