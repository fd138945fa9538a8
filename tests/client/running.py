"""A coordinator of fakes that serves its API for real, and is found by its home."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millrace.api.serve import Server, bound
from millrace.coordinator.home import Home
from millrace.coordinator.station import Station
from millrace.machine import Folders
from millrace.ports import Record
from millrace.testing.workshop import FakeWorkshop
from tests.api.house import House

FILE = """\
pipeline: traffic
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {vehicle: string, speed: double}}
  clean: {schema: {vehicle: string, speed: double}}
  seen: {}
jobs:
  clean: {from: raw, to: clean, sql: "SELECT * FROM raw WHERE speed > 0"}
  seen: {from: clean, to: seen, map: "code:seen"}
"""
CODE = "def seen(record):\n    return record\n"


def project(folder: Path, text: str = FILE) -> Path:
    """Write a pipeline with its code; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.py").write_text(CODE)
    (folder / "pipeline.yaml").write_text(text)
    return folder / "pipeline.yaml"


@contextmanager
def coordinator(
    home: Path, certificate: Path | None = None, key: Path | None = None
) -> Iterator[House]:
    """Open a station in a home and serve it, until the block ends."""
    place = Home(Folders(home.absolute(), home.absolute() / "cache"))
    shops: dict[tuple[str, str], FakeWorkshop] = {}

    def shop(pipeline: str, site: str) -> FakeWorkshop:
        folder = home / "sites" / pipeline / site
        folder.mkdir(parents=True, exist_ok=True)
        return shops.setdefault((pipeline, site), FakeWorkshop(site, folder))

    station = Station.open(place, shop, lambda pipeline, site: home / "sites" / pipeline / site)
    try:
        with served(station, certificate, key) as url:
            place.write_address(url, certificate)
            yield House(station, place, shops)
    finally:
        station.close()


@contextmanager
def served(
    station: Station, certificate: Path | None = None, key: Path | None = None, port: int = 0
) -> Iterator[str]:
    """Serve a station; gives the URL."""
    server = Server(station, bound(f"127.0.0.1:{port}", certificate, key))
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda _: ready.set(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield server.address.url
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


def written(house: House, stream: str, *values: bytes) -> None:
    """Put records into a stream of the pipeline `traffic`."""
    shop = house.shops["traffic", "here"]
    shop.kafka.log.write(stream, [Record(value, b"k", partition=0) for value in values])


def later(seconds: float, do: Callable[[], Any]) -> threading.Timer:
    """Have something done while a test goes on; to be joined."""
    timer = threading.Timer(seconds, do)
    timer.start()
    return timer
