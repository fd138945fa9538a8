"""Declarations: read from YAML, with all problems at once; changed by what people type."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.experiment.declaration import given_values, number
from millrace.experiment.file import parsed, read_declaration
from millrace.experiment.links import Link, Way
from millrace.experiment.registry import Registry
from tests.experiment.toys import DECLARED

WHOLE = """
experiment: mine
of: fog-cloud
title: Mine
matrix: {rate: [1, 2.5], place: here}
setup: [place]
repeats: 3
seed: 7
warmup: 1
carried_by: namespaces
links:
  up: {between: [edge, cloud], latency: 18.6 ms, bandwidth: 8 Mbit/s, loss: 0.01}
  all: {among: [[a, b], [c]], latency: 1 ms}
measures: {time: {unit: s, means: how long}}
quick: {repeats: 1, matrix: {rate: [1]}}
"""


def test_a_file_declares_all_of_it() -> None:
    found = parsed(WHOLE, "mine.yaml")
    assert (found.name, found.of, found.title) == ("mine", "fog-cloud", "Mine")
    assert found.matrix == {"rate": (1, 2.5), "place": ("here",)}
    assert (found.setup, found.repeats, found.seed, found.warmup) == (("place",), 3, 7, 1)
    assert found.way is Way.NAMESPACES
    assert found.links == (
        Link("up", ("edge", "cloud"), 0.0186, 1e6, 0.01),
        Link("all-a-c", ("a", "c"), 0.001),
        Link("all-b-c", ("b", "c"), 0.001),
    )
    assert found.quickened().matrix == {"rate": (1,), "place": ("here",)}
    assert found.quickened().repeats == 1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("experiment: mine", "title2: x", "experiment: write its name"),
        ("repeats: 3", "repeats: 0", "repeats is 0"),
        ("repeats: 3", "repeets: 3", "repeets is not known: repeats"),
        ("18.6 ms", "fast", "links.up.latency is 'fast'"),
        ("8 Mbit/s", "8/s", "links.up.bandwidth is '8/s'"),
        ("loss: 0.01", "loss: 2", "links.up.loss is 2"),
        ("between: [edge, cloud]", "between: [edge]", "links.up: write between"),
        ("setup: [place]", "setup: [plaice]", "setup: write a list of factors"),
        ("carried_by: namespaces", "carried_by: pigeons", "carried_by is 'pigeons'"),
        ("measures: {time: {unit: s, means: how long}}", "", "measures: write what"),
        ("matrix: {rate: [1]}", "matrix: {rat: [1]}", "quick.matrix.rat is not known: rate"),
        ("rate: [1, 2.5]", "rate: [[1]]", "matrix.rate: write values"),
        ("matrix: {rate", "matrix: [rate", "mine.yaml"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, told: str) -> None:
    assert old in WHOLE
    with pytest.raises(OperationFailed) as failed:
        parsed(WHOLE.replace(old, new, 1), "mine.yaml")
    assert told in failed.value.message


def test_all_problems_come_at_once() -> None:
    text = WHOLE.replace("repeats: 3", "repeats: x").replace("18.6 ms", "soon")
    with pytest.raises(OperationFailed, match=r"repeats is 'x'.*latency is 'soon'"):
        parsed(text, "mine.yaml")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="can't be read"):
        read_declaration(tmp_path / "none.yaml")


def test_numbers_that_people_type_are_numbers() -> None:
    found = given_values(["rate=1,2.5", "place=here,18.6 ms"])
    assert found == {"rate": (1, 2.5), "place": ("here", "18.6 ms")}


@pytest.mark.parametrize("text", ["rate", "=1"])
def test_what_sets_nothing_is_refused(text: str) -> None:
    with pytest.raises(OperationFailed, match="sets no factor"):
        given_values([text])


def test_a_factor_must_be_known_and_have_a_value() -> None:
    with pytest.raises(OperationFailed, match="no factor 'sise'") as failed:
        DECLARED.with_values({"sise": (1,)})
    assert failed.value.hint == "did you mean size?"
    with pytest.raises(OperationFailed, match="has no value"):
        DECLARED.with_values({"size": ()})


@pytest.mark.parametrize("name", Registry.installed().names())
def test_what_is_shipped_is_well_declared(name: str) -> None:
    declared = Registry.installed().load(name).declared
    assert declared.name == name
    assert declared.paper
    assert declared.links
    assert all(link.latency == pytest.approx(0.0186) for link in declared.links)
    assert declared.quickened().matrix.keys() == declared.matrix.keys()


@pytest.mark.parametrize("value", ["many", 0, 4, True])
def test_a_number_must_be_one_within_bounds(value: str | int) -> None:
    assert number({"edges": 3}, "edges", 1, 3) == 3
    with pytest.raises(OperationFailed, match=f"edges is {value!r}") as failed:
        number({"edges": value}, "edges", 1, 3)
    assert "from 1 to 3" in failed.value.hint
