"""MQTT behind the port `Broker`: managed (a Mosquitto of ours) or attached (by address)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.brokers.mqtt.connection import Connection
from millrace.brokers.mqtt.log import MqttLog
from millrace.brokers.mqtt.readers import Readers
from millrace.brokers.mqtt.server import AUTOSAVE, USER, Server, is_running, read_identity
from millrace.brokers.mqtt.session import forget
from millrace.brokers.mqtt.settings import checked, for_stream, of_managed, parsed
from millrace.brokers.mqtt.topics import check_read, has_wildcards, refuse_unkept
from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, Log, Record, StreamStatus

UP_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class AttachedMqtt:
    """A broker that is already there, reached by its address.

    `recorded`: a stream is recorded from `ensure` on, so that its log can be read from its first
    record. Without it a recording begins when the log is first asked.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        where: str = "broker",
        folder: Path | None = None,
        *,
        recorded: bool = True,
        readers: Readers | None = None,
    ) -> None:
        self._settings = checked(settings, where)
        self._readers = Readers() if readers is None else readers
        self._folder = folder
        self._recorded = recorded
        self._streams: dict[str, StreamStatus] = {}
        self._log = MqttLog(self._settings, folder)
        self.log: Log = self._log

    def start(self) -> None:
        """Try whether it lets us in; see the port."""
        self._try()

    def _try(self) -> None:
        name = f"millrace-look-{uuid.uuid4().hex}"
        connection = Connection(parsed(self._settings), name, keep=False)
        try:
            connection.open()
        finally:
            connection.close()

    def stop(self) -> None:
        """Leave it alone: it is not ours. Recordings end."""
        self._log.close()

    def clients(self) -> dict[str, dict[str, str]]:
        """Return how clients connect, by the dialect of their settings."""
        return {"mqtt": dict(self._settings)}

    @property
    def alive(self) -> bool:
        """Whether nothing is known against it; one that is not ours may be away all the same."""
        return True

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look at it; see the port. Streams are those that were ensured: MQTT has no list."""
        del whole
        try:
            self._try()
        except OperationFailed:
            return self._seen(up=False)
        return self._seen(up=True)

    def _seen(self, *, up: bool, pid: int | None = None) -> BrokerStatus:
        streams = dict(self._streams) if up else {}
        return BrokerStatus(up, self._settings["address"], pid, self.clients(), streams)

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make sure that the streams can be used; see the port.

        MQTT makes nothing but the sessions of `readers`, each once: to look at one that is there
        would send the receiver away that has it.
        """
        own = {}
        for stream in streams:
            refuse_unkept(stream)
            given = for_stream(self._settings, stream.options, stream.name)
            check_read(stream.address)
            own[stream.address] = given
        self._try()
        for stream in streams:
            self._log.set_stream(stream.address, own[stream.address])
            if self._recorded:
                self._log.record(stream.address)
            largest = stream.max_record.bytes if stream.max_record is not None else None
            self._streams[stream.address] = StreamStatus(1, max_record=largest)
            for reader in readers:
                self._keep_for(reader, stream.address, own[stream.address])

    def _keep_for(self, reader: str, topic: str, given: Mapping[str, str]) -> None:
        """Let the broker keep what comes on a topic for a receiver, from now on."""
        if reader in self._readers:
            return
        settings = parsed(given)
        connection = Connection(settings, reader, keep=True)
        try:
            if not connection.open():
                connection.subscribe(topic, settings.qos)
        finally:
            connection.close()  # what it retains was not acknowledged, so it comes again
        self._readers.add(reader, topic)

    def drop(self, stream: Stream) -> None:
        """Forget the stream; see the port.

        What its writers let the broker retain goes, and what that keeps for its receivers.
        """
        for reader in self._readers.of(stream.address):
            forget(self._settings, reader)
            self._readers.remove(reader)
        given = parsed(for_stream(self._settings, stream.options, stream.name))
        if given.retain and not has_wildcards(stream.address):
            self._log.write(stream.address, [Record(b"")])  # an empty one takes its place
        self._log.forget(stream.address)
        self._log.set_stream(stream.address, None)
        self._streams.pop(stream.address, None)


class ManagedMqtt(AttachedMqtt):
    """A Mosquitto that Millrace starts; its state, its port and its password last."""

    def __init__(
        self,
        place: Path,
        options: Mapping[str, str] | None = None,
        where: str = "broker",
        folder: Path | None = None,
        *,
        recorded: bool = True,
        readers: Readers | None = None,
    ) -> None:
        server, client = of_managed(options or {}, where)
        tls = server.get("tls") == "true"
        autosave = int(server.get("autosave", AUTOSAVE))
        user, password = client.get("username", USER), client.get("password")
        self._server = Server(place, tls, user, password, autosave)
        self._client = client
        self._where = where
        given = {**client, "address": self._address()}
        super().__init__(given, where, folder, recorded=recorded, readers=readers)

    @staticmethod
    def settings_at(place: Path) -> dict[str, str] | None:
        """Return how the broker that keeps its state in a folder is reached, if it runs."""
        identity = read_identity(place)
        if identity is None or not is_running(identity):
            return None
        password = place / "password"
        settings = {"address": f"{'mqtts' if identity.tls else 'mqtt'}://127.0.0.1:{identity.port}"}
        if identity.tls:
            settings["ca"] = str(place / "server.crt")
        if password.exists():
            settings |= {"username": identity.username, "password": password.read_text("utf-8")}
        return settings

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._server.alive

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return self._server.child.pid if self._server.child is not None else None

    def launch(self) -> None:
        """Begin to start it and return at once, so that other things start meanwhile."""
        if self._server.alive:
            return
        self._server.launch()
        given = {**self._client, "address": self._address()}
        given |= {"username": self._server.username, "password": self._server.password}
        if self._server.tls:
            given["ca"] = str(self._server.certificate)
        fresh = checked(given, self._where)
        if fresh != self._settings:
            self._settings = fresh
            self._log.close()
            self.log = self._log = MqttLog(self._settings, self._folder)

    def start(self) -> None:
        """Start it and wait until it serves; see the port."""
        fresh = not self._server.alive
        self.launch()
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        if fresh:
            self._server.save_each_second()

    def stop(self) -> None:
        """End the process; its state stays."""
        self._log.close()
        self._server.end()

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look at it; see the port."""
        seen = super().status(whole=whole) if self._server.alive else self._seen(up=False)
        return self._seen(up=seen.up, pid=self.pid)

    def _address(self) -> str:
        identity = self._server.identity
        port = identity.port if identity is not None else 0
        return f"{'mqtts' if self._server.tls else 'mqtt'}://127.0.0.1:{port}"

    def _wait(self) -> None:
        """Return when it serves; the listener must be our own process's."""
        until = time.monotonic() + UP_SECONDS
        while True:
            if not self._server.alive:
                raise OperationFailed(
                    "broker-died", "Mosquitto ended as it started", f"see {self._server.log}",
                    transient=True,
                )  # fmt: skip
            if self._server.listens():
                try:
                    return self._try()
                except OperationFailed as failure:
                    if not failure.transient:
                        raise
            if time.monotonic() > until:
                raise OperationFailed(
                    "too-slow",
                    f"Mosquitto did not start within {UP_SECONDS:.0f} s",
                    f"see {self._server.log}",
                    transient=True,
                )
            time.sleep(_LOOK_SECONDS)
