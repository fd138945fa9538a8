"""The durable receiver: what comes on a topic goes into a spool, and only then is acknowledged.

Run as `python -m millrace.brokers.mqtt.receiver CONFIG.json`; that file holds secrets and is
readable by its owner only. The broker keeps the session of the receiver's client id, so that what
is not acknowledged comes again, after an end of any of the two. Of QoS 1 nothing is lost then, and
what comes twice says so in a header; of QoS 2 nothing comes twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from millrace.brokers.mqtt.connection import Connection
from millrace.brokers.mqtt.counters import Counters
from millrace.brokers.mqtt.failures import TAKEN, taken
from millrace.brokers.mqtt.properties import Message, record_of
from millrace.brokers.mqtt.session import Session
from millrace.brokers.mqtt.settings import checked, parsed
from millrace.brokers.mqtt.topics import check_read, has_wildcards
from millrace.errors import OperationFailed
from millrace.machine.failpoint import reach
from millrace.machine.secrets import keep_from_cores, write_private
from millrace.ports import counts_file
from millrace.spool import SpoolWriter

#: Under which receivers send themselves marks.
MARKS: Final = "millrace/marks"
#: One commit takes so many messages, or bytes, at most.
MOST: Final = 1_000
MOST_BYTES: Final = 16_000_000
FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 2.0
#: A connection that lasted so long was a sound one.
_SOUND_SECONDS: Final = 3.0
#: So many that did not, one after another, while the broker was there: somebody else has the id. A
#: broker of MQTT 5 should tell, Mosquitto 2.0.11 does not.
_SHORT_LIVES: Final = 5
_IDLE_SECONDS: Final = 1.0
#: With what the program ends, by the code of the error; 2 for others that trying does not help.
EXIT_TAKEN: Final = 3
EXIT_CODES: Final = {TAKEN: EXIT_TAKEN, "spool-held": 4}


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """What a receiver is told. `settings` are a client's, with those of the stream."""

    settings: Mapping[str, str]
    client_id: str
    topic: str
    spool: str
    #: Whether the broker keeps the session; else it is kept for lost connections only.
    durable: bool = True
    #: How many records are kept; None is all that are not `read`.
    kept: int | None = None

    @property
    def read(self) -> Path:
        """Where whoever reads the spool tells up to which position it is done."""
        return Path(self.spool) / "read"

    @property
    def counters(self) -> Path:
        """Where its counts are."""
        return counts_file(Path(self.spool))

    @property
    def session(self) -> Path:
        """Where it keeps what it knows of its session."""
        return Path(f"{self.spool}.session.json")

    def write(self, file: Path) -> None:
        """Write it for a program of its own; only its owner can read it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private(file, json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> ReceiverConfig:
        """Return what a file says."""
        try:
            if file.stat().st_mode & 0o077:
                raise OperationFailed(
                    "not-private", f"others may read {file}", f"chmod 600 {file}: it holds secrets"
                )
            return cls(**json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise OperationFailed(
                "bad-config", f"{file} is no configuration of a receiver: {error}"
            ) from error


def command(file: Path) -> list[str]:
    """Return what starts a receiver; `leashed` lets it end with who starts it."""
    return [sys.executable, "-m", "millrace.brokers.mqtt.receiver", str(file)]


class Marks(Protocol):
    """Wants to know how far a receiver is, by messages on a topic of their own."""

    topic: str

    def passed(self, marks: list[bytes]) -> None:
        """Hear that all before these marks is in the spool."""
        ...


class _Last:
    """The mark behind all that a receiver takes before it ends: see `Marks`."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.topic = f"{MARKS}/{uuid.uuid4().hex}"

    def passed(self, marks: list[bytes]) -> None:
        """All before it is in the spool."""
        del marks
        self._receiver.stop()


class Receiver:
    """Receives from `run` until `stop`; the spool is its own meanwhile."""

    def __init__(
        self,
        config: ReceiverConfig,
        *,
        marks: Marks | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._settings = parsed(checked(config.settings, "receiver"))
        check_read(config.topic)
        self._wildcards = has_wildcards(config.topic)
        self._marks = marks
        self._say = say
        self._stopping = False
        self._draining = self._leaving = False
        self._short_lives = 0
        self._forgotten = 0
        keep = True if config.durable else None
        self._connection = Connection(self._settings, config.client_id, keep=keep)
        self._writer: SpoolWriter
        self._session: Session
        self._counters: Counters

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted until now."""
        return asdict(self._counters.counts)

    def stop(self) -> None:
        """Let `run` return soon; any thread and a signal's handler may call."""
        self._stopping = True
        self._connection.wake()

    def drain(self, *, leave: bool = False) -> None:
        """Let `run` return when all is in the spool that the broker has by now; as `stop`.

        One that leaves ends its session: nothing more is kept for it.
        """
        self._draining, self._leaving = True, leave
        self._connection.wake()

    def run(self, ready: Callable[[], None] = lambda: None, *, patient: bool = True) -> None:
        """Receive until `stop`; calls `ready` at each connection, when the subscription is there.

        Connects again whenever the connection is lost. Raises for what trying again does not help
        against: bad credentials, no rights, another client with our id. One that is not `patient`
        raises as well if the first connection can't be made.
        """
        try:
            self._writer = SpoolWriter(Path(self._config.spool))
            try:
                self._counters = Counters(self._config.counters)
                self._session = Session.load(self._config.session, self._writer.end)
                self._go_on(ready, patient)
            except OperationFailed as failure:
                self._counters.failed(str(failure))
                raise
            finally:
                self._connection.close()
                self._writer.close()
        finally:
            self._connection.close()  # where another one has the spool

    def _go_on(self, ready: Callable[[], None], patient: bool) -> None:
        delay = FIRST_DELAY
        while not self._stopping:
            begun = time.monotonic()
            try:
                if not self._session.saved:  # what a full disk did not take
                    self._session.save()
                self._writer.commit()
                self._enter()
                ready()
                patient = True
                self._receive()
            except OperationFailed as failure:
                if not failure.transient or not patient:
                    raise
                lasted = time.monotonic() - begun
                delay = FIRST_DELAY if lasted > _SOUND_SECONDS else min(2 * delay, LONGEST_DELAY)
                self._lost(failure)
                # Not all at once: a broker that comes back has many receivers.
                self._connection.rest(delay * random.uniform(0.75, 1.25))  # noqa: S311
        self._counters.counts.connected_since = None
        self._counters.write(now=True)

    def _enter(self) -> None:
        """Connect, and make sure that our subscription is there."""
        config, session, counts = self._config, self._session, self._counters.counts
        present = self._connection.open()
        if present and session.topic not in (None, config.topic):
            self._connection.unsubscribe(str(session.topic))
        if not present and (session.topic is not None or session.held):
            counts.sessions_lost += 1
            self._say(f"the broker has no session of {config.client_id} any more")
            session.held.clear()
        if not present or (session.topic, session.qos) != (config.topic, self._settings.qos):
            session.topic, session.qos = None, -1
            session.save()
            if self._marks is not None:
                self._connection.subscribe(self._marks.topic, self._settings.qos)
            self._connection.subscribe(config.topic, self._settings.qos)
            session.topic, session.qos = config.topic, self._settings.qos
            session.save()
        counts.connected_since = time.time()
        self._counters.write(now=True)
        self._say(f"connected to {self._settings.address}, reading {config.topic}")

    def _receive(self) -> None:
        begun = time.monotonic()
        while not self._stopping:
            if self._short_lives and time.monotonic() - begun > _SOUND_SECONDS:
                self._short_lives = 0
            if self._draining and self._marks is None:
                self._mark_last()
            try:
                self._connection.pump(_IDLE_SECONDS, MOST, MOST_BYTES)
            finally:  # the last that came before the connection was lost may not come again
                self._keep(*self._connection.take())
            if self._counters.write():
                self._forget()

    def _mark_last(self) -> None:
        """Send ourselves a mark: what the broker took before it comes before it."""
        last = _Last(self)
        self._connection.subscribe(last.topic, self._settings.qos)
        self._marks = last
        self._connection.publish(last.topic, b"last", self._settings.qos)

    def _keep(self, messages: list[Message], released: list[int]) -> None:
        """Make messages durable, then acknowledge them: one commit for all that was there."""
        if not messages and not released:
            return
        topic = self._marks.topic if self._marks is not None else None
        marks = [message.payload for message in messages if message.topic == topic]
        fresh = [message for message in messages if self._is_fresh(message)]
        now = int(time.time() * 1000)
        position = self._writer.append(record_of(it, now, self._wildcards) for it in fresh)
        exactly = {message.id: n for n, message in enumerate(fresh, position) if message.qos == 2}
        if exactly or released:
            for mid in released:
                self._session.held.pop(mid, None)
            self._session.held |= exactly
            self._session.save()
        if fresh:
            self._writer.commit()
        reach("mqtt.acknowledge")
        for message in messages:
            self._connection.acknowledge(message)
        for mid in released:
            self._connection.complete(mid)
        self._connection.flush()
        self._count(fresh, sum(not _is_mark(it) for it in messages) - len(fresh))
        if self._marks is not None and marks:
            if isinstance(self._marks, _Last):
                self._connection.unsubscribe(self._marks.topic)
                if self._leaving:
                    self._connection.end_session()
            self._marks.passed(marks)

    def _forget(self) -> None:
        """Let go of what is done."""
        if self._config.kept is not None:
            done = self._writer.end - self._config.kept
        else:
            try:
                done = int(self._config.read.read_text("ascii"))
            except (OSError, ValueError):  # nobody has read yet
                return
        if done > self._forgotten:
            self._writer.trim(done)
            self._forgotten = done

    def _is_fresh(self, message: Message) -> bool:
        known = message.qos == 2 and message.id in self._session.held
        return not known and not _is_mark(message)

    def _count(self, fresh: list[Message], dropped: int) -> None:
        counts = self._counters.counts
        counts.received += len(fresh)
        counts.redelivered += sum(message.redelivered for message in fresh)
        counts.retained += sum(message.retained for message in fresh)
        counts.dropped += dropped

    def _lost(self, failure: OperationFailed) -> None:
        counts = self._counters.counts
        since = counts.connected_since
        self._say(str(failure))
        self._counters.failed(str(failure))
        if since is None:
            return
        counts.reconnects += 1
        # A broker that ended is not there now, and not because another client came.
        self._short_lives = self._short_lives + 1 if self._connection.is_reachable() else 0
        if self._short_lives >= _SHORT_LIVES:
            raise taken(self._settings, self._config.client_id)


def _is_mark(message: Message) -> bool:
    """Whether it is a mark of ours, or of others, which many topics as one may bring."""
    return message.topic.startswith(f"{MARKS}/")


def main() -> int:
    """Run a receiver until SIGTERM; returns the exit code."""
    keep_from_cores()
    try:
        config = ReceiverConfig.load(Path(sys.argv[1]))
        receiver = Receiver(config, say=_say)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: receiver.stop())
        signal.signal(signal.SIGUSR1, lambda *_: receiver.drain())
        signal.signal(signal.SIGUSR2, lambda *_: receiver.drain(leave=True))
        receiver.run()
    except OperationFailed as failure:
        _say(f"{failure.code}: {failure}")
        return EXIT_CODES.get(failure.code, 1 if failure.transient else 2)
    return 0


def _say(text: str) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{moment} receiver[{os.getpid()}] {text}\n")


if __name__ == "__main__":
    sys.exit(main())
