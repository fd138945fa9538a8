"""Ctrl-C ends a command, wherever in it that comes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

#: A command that has not ended so long after Ctrl-C is interrupted again.
AGAIN_SECONDS = 1.0


@contextmanager
def insisting() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at Ctrl-C, and again each second until it has ended.

    Python raises it between any two instructions. Where that is while garbage is collected, it is
    lost; where it is just behind the taking of a lock, as in a pool of connections, the lock stays
    taken and the way out waits for it without end. Another one a little later ends both.
    Commands that stop in an order of their own have handlers of their own in the meantime, see
    `lasting`; where Ctrl-C is ignored, as in a shell's background, it stays so.
    """
    if current_thread() is not main_thread() or _is_taken():
        yield
        return
    alarm = signal.getsignal(signal.SIGALRM)
    rang: list[tuple[float, float]] = []  # what the clock was set to before the first Ctrl-C

    def interrupt(_: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGALRM, interrupt)
        before = signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if not rang:
            rang.append(before)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if rang:
            signal.setitimer(signal.ITIMER_REAL, *rang[0])
            signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_taken() -> bool:
    """Whether somebody else says what Ctrl-C does."""
    return signal.getsignal(signal.SIGINT) is not signal.default_int_handler
