"""A shelf behind the port `Broker`: a folder, managed (in the site's) or attached (by its path)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from millrace.errors import OperationFailed
from millrace.model import Stream
from millrace.ports import BrokerOrder, BrokerStatus, Log, StreamStatus

from millrace_shelf.log import Shape, ShelfLog

KIND: Final = "shelf"
#: Is in the folder while a managed shelf serves.
_SERVES: Final = "serves"


class ShelfBroker:
    """See the port. Nothing runs: what serves is the file system."""

    def __init__(self, root: Path, *, managed: bool) -> None:
        self.root = root
        self._managed = managed
        self._shelf = ShelfLog(root)
        self.log: Log = self._shelf

    def start(self) -> None:
        """Make the folder of a managed one; one that is attached must be there."""
        if self._managed:
            self.root.mkdir(parents=True, exist_ok=True)
            (self.root / _SERVES).touch()
        elif not self.root.is_dir():
            raise OperationFailed(
                "no-broker",
                f"there is no shelf at {self.root}",
                "make that folder, or leave out the broker's address",
                transient=True,
            )

    def stop(self) -> None:
        """Say that a managed one does not serve any more; see the port."""
        if self._managed:
            (self.root / _SERVES).unlink(missing_ok=True)

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look at the folder; see the port."""
        del whole
        up = (self.root / _SERVES).is_file() if self._managed else self.root.is_dir()
        clients = {KIND: {"address": str(self.root)}}
        streams = {
            name: StreamStatus(shape.partitions, max_record=shape.max_record)
            for name, shape in (self._shelf.shapes() if up else {}).items()
        }
        return BrokerStatus(up, str(self.root), None, clients, streams)

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make streams be there as declared; see the port. All is kept, for all readers."""
        del readers
        there = self._shelf.shapes()
        for stream in streams:
            _refuse(stream, there.get(stream.address))
        for stream in streams:
            largest = None if stream.max_record is None else stream.max_record.bytes
            self._shelf.make(stream.address, Shape(stream.partitions, largest))

    def drop(self, stream: Stream) -> None:
        """Remove a stream; see the port."""
        self._shelf.remove(stream.address)


def _refuse(stream: Stream, there: Shape | None) -> None:
    """Raise for what a shelf can't do, with the way out."""
    where = f"streams.{stream.name}"
    if there is not None and there.partitions > stream.partitions:
        raise OperationFailed(
            "fewer-partitions",
            f"{stream.address} has {there.partitions} partitions, and can't have fewer",
            f"write {where}.partitions: {there.partitions}",
        )
    for name in ("retention", "compact", "options"):
        if getattr(stream, name):
            raise OperationFailed(
                "not-on-a-shelf", f"{where}.{name}: a shelf keeps all records as they are",
                f"leave out {name}, or use another broker",
            )  # fmt: skip


def broker_of(order: BrokerOrder) -> ShelfBroker:
    """Return the shelf of a site."""
    for name in order.options:
        raise OperationFailed(
            "bad-setting", f"{order.where}.{name}: a shelf has no settings", "leave it out"
        )
    if order.address is None:
        return ShelfBroker(folder_of(order.place), managed=True)
    return ShelfBroker(path_of(order.address), managed=False)


def path_of(address: str) -> Path:
    """Return the folder that an address names: a path, or file: with one."""
    scheme, colon, rest = address.partition("://")
    return Path(unquote(rest) if colon and scheme == "file" else address)


def folder_of(place: Path) -> Path:
    """Return the folder of a managed shelf in that of its site."""
    return place.absolute() / "shelf"


def serves(root: Path) -> bool:
    """Return whether a managed shelf serves in a folder."""
    return (root / _SERVES).is_file()
