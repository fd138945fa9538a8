from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.house import House, opened


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with opened(tmp_path) as found:
        yield found


@pytest.fixture
def client(house: House) -> Iterator[httpx.Client]:
    with house.client() as found:
        yield found
