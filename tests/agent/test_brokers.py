"""The broker of a site, by what the pipeline says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.agent.brokers import broker_of, log_of, site_place
from millrace.brokers.kafka import ManagedKafka
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.model.site import Broker, Site
from millrace.model.stream import Stream
from millrace.model.types import Options, Secret
from millrace.ports import Record

Make = Callable[..., Any]


@pytest.fixture
def made(folders: Folders, jars: Path) -> Make:
    """Give what makes brokers; what they are started with is there."""
    del jars
    return lambda site, place=Path("/nowhere"): broker_of(site, place, folders.cache)


def pipeline(broker: Broker | None) -> Pipeline:
    return Pipeline(
        "p", sites={"a": Site(name="a", broker=broker)}, streams={"s": Stream(name="s")}
    )


@pytest.mark.parametrize("address", ["h:9092", "kafka://h:9092", "tcp://h:9092/"])
def test_an_address_is_attached(address: str, monkeypatch: pytest.MonkeyPatch, made: Make) -> None:
    monkeypatch.setenv("SECRET", "s")
    password = Secret(secret="env:SECRET")  # noqa: S106 - a reference
    options: Options = {"sasl.username": "u", "sasl.password": password}
    broker = made(Site(name="a", broker=Broker(address=address, options=options)))
    assert not isinstance(broker, ManagedKafka)
    assert broker._settings == {
        "bootstrap.servers": "h:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "s",
    }


def test_without_an_address_it_is_managed_and_not_started(tmp_path: Path, made: Make) -> None:
    broker = made(Site(name="a", broker=Broker()), tmp_path)
    assert isinstance(broker, ManagedKafka)
    assert not broker.status().up
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_is_told_with_its_place(made: Make) -> None:
    for address in ("h:1", None):
        with pytest.raises(OperationFailed) as caught:
            made(Site(name="a", broker=Broker(address=address, options={"sasl.user": "u"})))
        assert "sites.a.broker.options" in caught.value.message
        assert "sasl.username" in caught.value.hint


@pytest.mark.parametrize(
    ("broker", "code", "hint"),
    [
        (None, "no-broker", "sites.a.broker: kafka"),
        (Broker(kind="kafak"), "no-plugin", "kafka"),
    ],
)
def test_what_can_not_run_is_told(broker: Broker | None, code: str, hint: str, made: Make) -> None:
    for use in (
        lambda: made(Site(name="a", broker=broker)),
        lambda: log_of(
            pipeline(broker), Stream(name="s"), Folders(Path("/nowhere"), Path("/nowhere"))
        ),
    ):
        with pytest.raises(OperationFailed) as caught:
            use()
        assert caught.value.code == code
        assert hint in caught.value.hint


def test_the_log_of_a_broker_that_does_not_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        log_of(pipeline(Broker()), Stream(name="s"), Folders(tmp_path, tmp_path))
    assert caught.value.code == "not-running"
    assert "millrace run" in caught.value.hint


def test_the_log_is_found_while_the_broker_runs(
    tmp_path: Path, folders: Folders, made: Make
) -> None:
    """By the folder of the site alone when it is managed, by the address when it is not."""
    folders = Folders(tmp_path, folders.cache)
    managed = pipeline(Broker())
    site, stream = managed.sites["a"], managed.streams["s"]
    broker = made(site, site_place(folders, "p", "a"))
    try:
        broker.start()
        broker.ensure(stream)
        log_of(managed, stream, folders).write("s", [Record(b"1")])
        attached = pipeline(Broker(address=f"kafka://{broker.status().address}"))
        [got] = log_of(attached, stream, folders).read("s", {0: 0}, {0: 1})
        assert got.value == b"1"
    finally:
        broker.stop()
    with pytest.raises(OperationFailed, match="does not run"):
        log_of(managed, stream, folders)
