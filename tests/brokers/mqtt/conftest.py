"""A Mosquitto of our own for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.mqtt import ManagedMqtt
from millrace.machine.process import session_members


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedMqtt]:
    """Run one for the tests of a module; none of its processes is left."""
    place = tmp_path_factory.mktemp("mosquitto")
    broker = ManagedMqtt(place)
    broker.start()
    pid = broker.pid
    assert pid is not None
    try:
        yield broker
    finally:
        broker.stop()
        assert session_members(pid) == []


@pytest.fixture
def settings(mosquitto: ManagedMqtt) -> dict[str, str]:
    """Return how its clients connect."""
    return mosquitto.clients()["mqtt"]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"
