"""What commands share that last until they are stopped: signals, a log, a bar for the jars."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress as Bar

from millrace.cli.output import say

if TYPE_CHECKING:
    from millrace.agent.fleet import Told

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def stopping() -> list[signal.Signals]:
    """Return the signals that stop a command: a terminal that is gone, too, unless by `nohup`."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [one for one in _SIGNALS if not (nohup and one is signal.SIGHUP)]


@contextmanager
def asked_to_stop() -> Iterator[Event]:
    """Give an event that the first signal to stop sets; a second one ends the process at once."""
    asked = Event()

    def stop(_: int, __: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, stop) for number in stopping()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def logged(file: Path) -> Iterator[Callable[[str], None]]:
    """What is told to a person also goes to a log of lines of JSON."""
    from millrace.measure.logs import log_event, log_to  # noqa: PLC0415 - it is an extra

    logger = logging.getLogger("millrace.run")

    def tell(text: str) -> None:
        log_event(logger, text)
        say(text)

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(log_to(file)):
        yield tell


@contextmanager
def fetching() -> Iterator[Told | None]:
    """A bar for the jars, which are fetched once; nothing where nobody looks."""
    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(
            "fetching Kafka and Spark's connector (once)", total=None, visible=False
        )

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)
            if not console.is_terminal and done in (1, total):
                say(f"fetching jars, once: {done} of {total}")

        yield told
