"""Plug-ins by group and name: ours and those of others come in by the same door."""

from __future__ import annotations

import pytest

from millrace.errors import OperationFailed
from millrace.ports.plugins import BROKERS, ENGINES, Registry, installed


def test_ours_are_installed_and_loaded() -> None:
    assert {"kafka", "mqtt"} <= set(installed().names(BROKERS))
    assert {"spark", "flink"} <= set(installed().names(ENGINES))
    assert installed().load(BROKERS, "kafka").keeps
    assert not installed().load(BROKERS, "mqtt").keeps
    assert callable(installed().load(ENGINES, "flink").engine)


def test_one_that_is_not_there_is_told_with_the_nearest_name() -> None:
    for name, hint in (("kafak", "did you mean 'kafka'?"), ("pulsar-like", "install the package")):
        with pytest.raises(OperationFailed) as caught:
            installed().load(BROKERS, name)
        assert caught.value.code == "no-plugin"
        assert hint in caught.value.hint


def test_one_that_lacks_something_says_what() -> None:
    def load() -> object:
        raise ModuleNotFoundError("No module named 'paho'")

    with pytest.raises(OperationFailed) as caught:
        Registry({BROKERS: {"mqtt": load}}).load(BROKERS, "mqtt")
    assert caught.value.code == "plugin-broken"
    assert "paho" in caught.value.message
    assert "millrace[mqtt]" in caught.value.hint
