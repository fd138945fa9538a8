"""A program that is given a batch on its standard input."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from millrace.engines.spark.outside.undone import SAID, Undone, one_line


def run(
    command: Sequence[str], data: bytes, at: Path, seconds: float, environment: Mapping[str, str]
) -> None:
    """Run a program and wait for it, not for what it leaves running; raises where it failed.

    It reads and writes files, not pipes: nobody waits for a child of it that holds one open. When
    its time is over it ends with all that it started, unless that left its session.
    """
    name = " ".join(command)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(data)
        given.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own program, no shell
                command, stdin=given, stdout=said, stderr=subprocess.STDOUT, cwd=at,
                env=dict(environment), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Undone(f"{name} can't be run: {error.strerror}") from error
        try:
            code = process.wait(seconds)
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Undone(f"{name} took longer than {seconds:g} s") from None
            raise
        if code != 0:
            raise Undone(f"{name} ended with {code}: {_last(said)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and its group, which is its own: it was the first of a session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last(said: IO[bytes]) -> str:
    said.seek(max(said.seek(0, os.SEEK_END) - SAID, 0))
    return one_line(said.read())
