"""What tests of the client share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.client import Client
from tests.api.house import House
from tests.client.running import coordinator


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Serve a coordinator of fakes."""
    with coordinator(tmp_path / "home") as served:
        yield served


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    """Return a client of the coordinator."""
    with Client.local(house.home.folders.state) as found:
        yield found
