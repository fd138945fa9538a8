"""A PostgreSQL of its own for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.machine import free_ports

#: As root it refuses to run: the package makes this user for it.
_USER = "postgres" if os.getuid() == 0 else None
PASSWORD = "se same"  # noqa: S105 - of a server that only tests see


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that runs; its user is `reader`."""

    port: int

    @property
    def address(self) -> str:
        return f"postgresql://reader@127.0.0.1:{self.port}/postgres"


def _programs() -> Path:
    said = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
    return Path(said.stdout.strip())


def _run(program: str, *arguments: str, at: Path) -> None:
    subprocess.run(
        [_programs() / program, *arguments],
        check=True, timeout=60, user=_USER, cwd=at, capture_output=True,
    )  # fmt: skip


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server in a folder of its own, and leave nothing."""
    place = Path(tempfile.mkdtemp(prefix="millrace-pg-"))
    if _USER is not None:
        shutil.chown(place, _USER)
    try:
        secret = place / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data, (port,) = place / "data", free_ports(1)
        _run(
            "initdb", "-D", str(data), "-U", "reader", "-A", "scram-sha-256",
            "--pwfile", str(secret), "--no-sync", at=place,
        )  # fmt: skip
        options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = str(place / "log")
        _run("pg_ctl", "-D", str(data), "-o", options, "-l", log, "-w", "start", at=place)
        try:
            yield Postgres(port)
        finally:
            _run("pg_ctl", "-D", str(data), "-m", "fast", "-w", "stop", at=place)
    finally:
        shutil.rmtree(place)
