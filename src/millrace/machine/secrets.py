"""Secrets by reference, read where they are needed and never kept.

What stands around them (the end of a line, above all) is no part of them: in a header or a file of
settings it would break what follows.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.model.types import Option, Secret


def resolved(options: Mapping[str, Option] | None, where: str) -> dict[str, str]:
    """Return the options as texts, with each secret in the place of its reference."""
    return {name: _text(value, f"{where}.{name}") for name, value in (options or {}).items()}


def _text(value: Option, where: str) -> str:
    if isinstance(value, Secret):
        return revealed(value.secret, where)
    return str(value).lower() if isinstance(value, bool) else str(value)


def revealed(reference: str, where: str) -> str:
    """Return a secret; raises, with the way out, where there is none. `where` tells the user."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        if name not in os.environ:
            raise OperationFailed(
                "no-secret", f"{where}: the variable {name} is not set", f"export {name}=..."
            )
        return os.environ[name].strip()
    if kind == "file":
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise OperationFailed(
                "no-secret",
                f"{where}: {name} can't be read: {error.strerror}",
                "write the secret into that file (mode 0600)",
            ) from error
        except UnicodeDecodeError:
            raise OperationFailed(
                "no-secret",
                f"{where}: {name} holds no text in UTF-8",
                "write the secret into that file as text",
            ) from None  # the error holds the bytes
    raise OperationFailed(
        "no-secret",
        # It is not repeated: who forgot `env:` may have written the secret itself.
        f"{where}: that is no reference to a secret",
        "use env:NAME or file:PATH",
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def keep_from_cores() -> None:
    """Let a crash of this process, or of one that it starts, write no memory to the disk.

    What was read from its place is in there.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
