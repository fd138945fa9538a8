"""Commands as a user types them, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def document(done: Done) -> Any:
    return json.loads(done.stdout)
