"""A coordinator on the shipped fakes in a process of its own: as `millrace up`, but for sites.

Run as `python -m bench.sites.served HOME`. It prints its URL, then the calls that fakes got so far
for each line of its input, and ends with its input.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.sites.counted import Calls, counted_shop
from bench.streams.child import Talker
from millrace.api.serve import Server, bound
from millrace.client import Client
from millrace.coordinator.home import Home
from millrace.coordinator.station import Station
from millrace.machine import Folders

UP_SECONDS = 60.0
#: On a busy machine a thousand jobs take their time.
DONE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Served:
    """A coordinator that runs elsewhere."""

    talker: Talker
    client: Client
    home: Path

    @property
    def process(self) -> psutil.Process:
        """Its process."""
        return psutil.Process(self.talker.process.pid)

    def calls(self) -> dict[str, int]:
        """Return how often each method of a fake was called so far."""
        self.talker.say("calls")
        found: dict[str, int] = json.loads(self.talker.hear(UP_SECONDS)[1])
        return found

    def apply(self, document: dict[str, object]) -> dict[str, object]:
        """Apply a document and return the operation when it is done."""
        return done(self.client, self.client.apply(document))


def done(client: Client, begun: dict[str, object]) -> dict[str, object]:
    """Return an operation when it is done; raises where it ended otherwise."""
    found = begun
    if not begun["over"]:
        found = client.wait(str(begun["id"]), DONE_SECONDS)
    if found["state"] != "done":
        message = f"{found['id']} is {found['state']}: {found['reason']}"
        raise RuntimeError(message)
    return found


@contextmanager
def serving() -> Iterator[Served]:
    """Have a coordinator on fakes for the time of a block; all of it is gone after."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder) / "home"
        command = [sys.executable, "-m", "bench.sites.served", str(home)]
        talker = Talker(command, Path(folder) / "served.log")
        try:
            talker.hear(UP_SECONDS)
            with closing(Client.local(home)) as client:
                yield Served(talker, client, home)
        finally:
            talker.end(10.0)


def main() -> None:
    """Serve until the input ends."""
    place = Path(sys.argv[1])
    calls, home = Calls(), Home(Folders.of(place))

    def at(pipeline: str, site: str) -> Path:
        return place / "sites" / pipeline / site

    address = bound("127.0.0.1:0")
    station = Station.open(home, lambda p, s: counted_shop(s, at(p, s), calls), at)
    server = Server(station, address)

    def ready(url: str) -> None:
        home.write_address(url, None)
        print(url, flush=True)

    serving_thread = threading.Thread(target=server.run, args=(ready,), daemon=True)
    serving_thread.start()
    for _ in sys.stdin:
        print(json.dumps(dict(calls)), flush=True)
    server.stop()
    serving_thread.join(10)
    station.close()


if __name__ == "__main__":
    main()
