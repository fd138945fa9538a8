"""Where a coordinator keeps its things: its state, its artifacts, its first token, its address."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millrace.coordinator.tenure import Around, Holder, Tenure, take
from millrace.machine import Folders
from millrace.machine.address import (
    Address,
    address_file,
    coordinator_folder,
    read_address,
    token_file,
)
from millrace.machine.process import started_at
from millrace.machine.secrets import write_private
from millrace.stores.artifacts import Artifacts
from millrace.stores.sqlite import SqliteStore

_LOG = logging.getLogger(__name__)
#: The name of the token that is made at the first start.
FIRST_TOKEN = "first"  # noqa: S105 - a name, no secret


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a coordinator."""

    folders: Folders

    @property
    def place(self) -> Path:
        """The folder."""
        return coordinator_folder(self.folders)

    @property
    def sites(self) -> Folders:
        """The folders of the sites that it serves itself: others than those of `millrace run`."""
        return Folders(self.place, self.folders.cache)

    @property
    def token(self) -> Path:
        """The file with the token of who started it first."""
        return token_file(self.folders)

    @property
    def artifacts(self) -> Artifacts:
        """Code and parcels."""
        return Artifacts(self.place / "artifacts")

    def tenure(self, above: int = 0, warn: Callable[[str], None] = _LOG.warning) -> Tenure:
        """Open the state and take the right to change it; raises where another coordinator has it.

        A predecessor whose process is gone is followed at once. For `above` see `take`; `warn` is
        told of an upgrade of the state.
        """
        self.place.mkdir(parents=True, exist_ok=True, mode=0o700)
        store = SqliteStore(self.place / "state.db", warn=warn)
        try:
            around = Around(_alive, time.monotonic, time.sleep)
            return take(store, holder(), around, above)
        except BaseException:
            store.close()
            raise

    def write_token(self, text: str) -> None:
        """Keep the first token where only its owner reads it."""
        write_private(self.token, text + "\n")

    def write_address(self, url: str, certificate: Path | None) -> None:
        """Let commands on this machine find the coordinator."""
        write_private(address_file(self.folders), Address(url, certificate).document())

    def address(self) -> tuple[str, Path | None]:
        """Return where the coordinator of this home is reached, and the certificate to trust."""
        found = read_address(self.folders)
        return found.url, found.certificate


def holder() -> Holder:
    """Return this process."""
    return Holder(socket.gethostname(), os.getpid(), started_at(os.getpid()))


def _alive(holder: Holder) -> bool:
    started = started_at(holder.pid)
    return started != 0.0 and abs(started - holder.born) < 1
