"""Makes the state of a small coordinator, for `schemas`: a file as this Millrace writes it.

Before a migration is added, `python -m tests.stores.made tests/stores/schemas/NNNN.db` writes the
file of the schema that is there; no later Millrace can.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

from millrace.coordinator.tokens import Role
from millrace.errors import OperationFailed
from tests.api.house import BASE, House, document, opened


def lived(house: House) -> None:
    """Let a coordinator see changes, one that fails and is undone, one that goes, and requests."""
    with house.client() as client:
        key = {"Idempotency-Key": "5b2f", "If-Match": '"0"'}
        house.done(client, house.apply(client, document("roads", description="Straße"), **key))
        house.done(client, house.apply(client, document("roads", jobs=3)))
        house.shops["roads", "here"].spark.broken["j3"] = OperationFailed("bad", "it never starts")
        undone = house.done(client, house.apply(client, document("roads", jobs=4)))
        assert undone["state"] == "undone", undone
        house.done(client, house.apply(client, document("rivers")))
        house.done(client, client.delete(f"{BASE}/pipelines/rivers"))
        house.token(Role.VIEWER, site="edge")


def made(file: Path) -> None:
    """Write the state of such a coordinator; it has ended, and nobody held its token."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("socket.gethostname", return_value="here"),
    ):
        with opened(Path(folder)) as house:
            lived(house)
        shutil.copyfile(house.home.place / "state.db", file)


if __name__ == "__main__":
    made(Path(sys.argv[1]))
