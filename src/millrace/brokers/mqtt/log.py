"""MQTT as a log: written for real, read from a recording that begins with the first question."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from millrace.brokers.mqtt.failures import no_partition
from millrace.brokers.mqtt.publisher import Publisher
from millrace.brokers.mqtt.recording import Recording
from millrace.brokers.mqtt.settings import parsed
from millrace.brokers.mqtt.topics import check_read
from millrace.errors import OperationFailed
from millrace.ports import Record, Span

#: How long something that must come may take, in seconds.
LIMIT = 30.0
_LOOK_SECONDS = 0.005
#: So many bytes of records are held in memory at once.
_MUCH = 64 * 1024 * 1024
_LONGEST_NAME = 200


class MqttLog:
    """Writes to topics, and reads what came since it was first asked for a topic.

    MQTT keeps nothing, so positions count from the first `ends`, `read`, `since`, `last` or
    `record` of a stream on; a recording goes on until `close`. Any thread may call.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path | None = None) -> None:
        self._settings = dict(settings)
        self._folder = folder
        self._own: dict[str, Mapping[str, str]] = {}
        self._recordings: dict[str, Recording] = {}
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end, self._recordings, [])

    def set_stream(self, stream: str, settings: Mapping[str, str] | None) -> None:
        """Use settings of its own for a stream (its QoS); None is those of all others."""
        with self._lock:
            if settings is None:
                self._own.pop(stream, None)
            else:
                self._own[stream] = dict(settings)

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Publish records with the stream's QoS; see the port."""
        settings = parsed(self._own.get(stream, self._settings))
        publisher = Publisher(settings)
        try:
            return publisher.write(stream, records, settings.qos, retain=settings.retain)
        finally:
            publisher.close()

    def record(self, stream: str) -> Recording:
        """Return the recording of a stream; it begins now if it has not."""
        with self._lock:
            if stream not in self._recordings:
                settings = self._own.get(stream, self._settings)
                check_read(stream)
                made = Recording(settings, stream, self._place() / _file_name(stream))
                made.start()
                self._recordings[stream] = made
            return self._recordings[stream]

    def forget(self, stream: str) -> None:
        """End the recording of a stream, and remove it."""
        with self._lock:
            recording = self._recordings.pop(stream, None)
        if recording is not None:
            recording.remove()

    def close(self) -> None:
        """End all recordings; those in a folder that was given stay."""
        with self._lock:
            self._end()
            self._recordings = {}
            self._end = weakref.finalize(self, _end, self._recordings, [])

    def _place(self) -> Path:
        """The folder of recordings; a temporary one goes with this log."""
        if self._folder is not None:
            return self._folder
        told = self._end.peek()
        assert told is not None  # noqa: S101 - it is alive while we are
        places: list[Path] = told[2][1]
        if not places:
            places.append(Path(tempfile.mkdtemp(prefix="millrace-mqtt-")))
        return places[0]

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from a position on; see the port."""
        if unknown := sorted(set(start) - {0}):
            raise no_partition(stream, unknown[0])
        end = None if until is None else until.get(0, 0)
        if 0 not in start or (end is not None and start[0] >= end):
            return iter(())
        return _taken(self.record(stream), stream, start[0], end, wait)

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what was recorded; see the port."""
        return {0: self._settled(stream).reader.span()}

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return the first position of a time; see the port."""
        return {0: self._settled(stream).reader.since(time)}

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what was recorded since a time; see the port."""
        reader = self._settled(stream).reader
        start, end = reader.since(time), reader.span().end
        if end - start > most:
            return None
        found, size = [], 0
        for record in reader.read(start, end):
            size += len(record.value or b"")
            if size > _MUCH:
                return None
            found.append(record)
        return found

    def _settled(self, stream: str) -> Recording:
        recording = self.record(stream)
        recording.settle()
        return recording


def _taken(
    recording: Recording, stream: str, at: int, end: int | None, wait: float
) -> Iterator[Record]:
    """Read a recording, and go on with what comes."""
    last = time.monotonic()
    while True:
        span = recording.reader.span()
        at = max(at, span.first) if at <= span.end else at
        for record in recording.reader.read(at, end):
            at = record.position + 1
            yield record
            last = time.monotonic()
        if end is not None and at >= end:
            return
        if time.monotonic() - last > (wait if end is None else LIMIT):
            if end is None:
                return
            raise OperationFailed(
                "no-answer",
                f"{stream} was not read to position {end} in {LIMIT:.0f} s: it is at {at}",
                "positions count from the first question of this log; is the broker up?",
                transient=True,
            )
        recording.check()
        time.sleep(_LOOK_SECONDS)


def _end(recordings: dict[str, Recording], places: list[Path]) -> None:
    for recording in recordings.values():
        recording.stop()
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


def _file_name(topic: str) -> str:
    """A name of a folder for a topic; long ones share a beginning and differ in a number."""
    name = quote(topic, safe="").replace(".", "%2E")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:100]}-{uuid.uuid5(uuid.NAMESPACE_OID, topic).hex}"
