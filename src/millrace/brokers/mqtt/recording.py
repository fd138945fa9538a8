"""A stream in a spool, so that it can be read by positions: MQTT itself keeps no log."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

from millrace.brokers.mqtt.publisher import Publisher
from millrace.brokers.mqtt.receiver import MARKS, Receiver, ReceiverConfig
from millrace.brokers.mqtt.settings import parsed
from millrace.errors import OperationFailed
from millrace.ports import Record
from millrace.spool import SpoolReader

#: How many records a recording keeps.
KEPT = 500_000
START_SECONDS = 15.0
#: How long a mark may take to come back; a broker may not let us write it at all.
SETTLE_SECONDS = 5.0


class Recording:
    """Subscribes to a topic and puts what comes into a spool, from `start` on.

    Where another process records into the same folder its recording is read.
    """

    def __init__(self, settings: Mapping[str, str], topic: str, folder: Path) -> None:
        name = uuid.uuid4().hex
        #: Messages to ourselves, which follow what is written into the spool.
        self.topic = f"{MARKS}/{name}"
        self._settings = dict(settings)
        self._folder = folder
        self.reader = SpoolReader(folder)
        client_id = f"millrace-reader-{name}"
        config = ReceiverConfig(
            self._settings, client_id, topic, str(folder), durable=False, kept=KEPT
        )
        self._receiver = Receiver(config, marks=self)
        self._thread = threading.Thread(target=self._run, name=f"recording {topic}", daemon=True)
        self._ready = threading.Event()
        self._failure: OperationFailed | None = None
        self._elsewhere = False
        self._changed = threading.Condition()
        self._passed: set[bytes] = set()

    def start(self) -> None:
        """Return when the subscription is there; raises where it can't be."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            self.stop()
            raise OperationFailed(
                "no-answer", "the broker does not let us read in time", "is it up?", transient=True
            )
        self.check()

    def _run(self) -> None:
        try:
            self._receiver.run(self._ready.set, patient=False)
        except OperationFailed as failure:
            self._elsewhere = failure.code == "spool-held"
            self._failure = None if self._elsewhere else failure
        finally:
            self._ready.set()

    def check(self) -> None:
        """Raise what ended it, if something did."""
        if self._failure is not None:
            raise self._failure

    def passed(self, marks: list[bytes]) -> None:
        """Hear that all before these marks is in the spool."""
        with self._changed:
            self._passed.update(marks)
            self._changed.notify_all()

    def settle(self) -> None:
        """Return when all is in the spool that the broker had when this was called.

        A broker hands out what it has for a client in its order, so a mark comes after it. Where
        we may not write marks what came until now must do.
        """
        self.check()
        if self._elsewhere:
            return
        mark, settings = uuid.uuid4().bytes, parsed(self._settings)
        publisher = Publisher(settings)
        try:
            publisher.write(self.topic, [Record(mark)], settings.qos, retain=False)
        except OperationFailed as failure:
            if failure.code != "no-rights":
                raise
        finally:
            publisher.close()
        with self._changed:
            self._changed.wait_for(lambda: mark in self._passed, SETTLE_SECONDS)
            self._passed.discard(mark)

    def stop(self) -> None:
        """End the subscription; what was recorded stays."""
        self._receiver.stop()
        if self._thread.ident is not None:
            self._thread.join(START_SECONDS)

    def remove(self) -> None:
        """End it and remove what was recorded."""
        self.stop()
        if self._elsewhere:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        for beside in self._folder.parent.glob(f"{self._folder.name}.*.json"):
            beside.unlink(missing_ok=True)
