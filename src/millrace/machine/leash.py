"""Becomes another program that ends when the process which started it does.

Run as `python -m millrace.machine.leash PARENT PROGRAM ARGUMENT...`. Linux tells a child of its
parent's end by a signal, if the child asks for it; a Java program can't ask, so this asks first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that the parent is still there, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606 - argv, no shell


if __name__ == "__main__":
    main()
