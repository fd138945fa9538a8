from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import Problems
from millrace.spec.node import plain
from millrace.spec.source import Source
from millrace.spec.yaml_reader import looks_like_text, read_yaml
from millrace.spec.yaml_writer import write_yaml
from tests.strategies import texts


def read(text: str) -> tuple[Any, list[tuple[str, int, int]]]:
    problems = Problems()
    node = read_yaml(Source("f", text), problems)
    told = [(item.code, item.at.line, item.at.column) for item in problems if item.at]
    return (plain(node) if node is not None else None), told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("~", None),
        ("Null", None),
        ("TRUE", True),
        ("False", False),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-7", -7),
        ("+7", 7),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("!!float 5", 5),
        ("!!null ''", None),
        ("! x", "x"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    assert read(f"a: {text}") == ({"a": value}, [])


def test_every_value_knows_its_place() -> None:
    problems = Problems()
    node = read_yaml(Source("f", "a: 1\nb:\n  - x\n  - {c: [d]}\n"), problems)
    assert node is not None
    listed: Any = node.map["b"].value
    inner: Any = listed[1].map["c"].value
    assert str(inner[0].at) == "f:4:10"
    assert str(node.key_at("b")) == "f:2:1"
    assert str(node.key_at("missing")) == "f:1:1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3", ("duplicate-key", 3, 1)),
        ("", ("empty", 1, 1)),
        ("# only a comment", ("empty", 1, 1)),
        ("a: [1", ("syntax", 1, 6)),
        ("a:\n\t- b", ("syntax", 2, 1)),
        ("a: 1\n---\nb: 2", ("syntax", 2, 1)),
        ("[a]: 1", ("syntax", 1, 1)),
        ("a: &x [*x]", ("bad-alias", 1, 8)),
        ("a: *x", ("bad-alias", 1, 4)),
        ("a: &x [1]\n*x : 2", ("syntax", 2, 1)),
        ("<<: {a: 1}", ("merge-key", 1, 1)),
        ("a: !thing b", ("tag", 1, 4)),
        ("a: !thing {b: c}", ("tag", 1, 4)),
        ("a: !!int x", ("tag", 1, 4)),
        ("a: " + "1" * 400, ("number", 1, 4)),
        ("a: \x01", ("syntax", 1, 4)),
        ('a: "\\ud800"', ("syntax", 1, 7)),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: tuple[str, int, int]) -> None:
    assert told in read(text)[1]


def test_aliases_share_what_they_name() -> None:
    assert read("a: &x {b: 1}\nc: *x\n&k d: *k")[0] == {"a": {"b": 1}, "c": {"b": 1}, "d": "d"}


def test_depth_is_bounded_before_it_is_reached() -> None:
    for text in ("[" * 500_000, "- " * 10_000 + "x", "{a: " * 10_000, "? " * 10_000):
        value, told = read(text)
        assert value is None
        assert told[0][0] in ("too-deep", "syntax")
    assert read("[" * 99 + "]" * 99)[1] == []


def test_aliases_have_a_budget_and_written_nodes_do_not() -> None:
    names = "abcdefgh"
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in pairwise(names)
    )
    assert read(bomb)[1][0][0] == "alias-budget"
    fits = "a: &a [" + "1," * 999 + "]\nb: [" + "*a," * 99 + "]"
    assert read(fits)[1] == []
    assert read("a: [" + "1," * 150_000 + "]")[1] == []


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**63) + 1, 2**63 - 1), texts),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(texts.filter(lambda key: key != "<<"), inner, max_size=3)
        ),
    )
)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    document = {"top": value}
    assert read(write_yaml(document)) == (document, [])


@given(texts)
def test_text_that_needs_quotes_is_known(text: str) -> None:
    if text and looks_like_text(text) and text.isalnum():
        assert read(f"a: {text}")[0] == {"a": text}


def test_the_c_parser_is_there() -> None:
    """Without libyaml all of this would be slow: installs must have it."""
    assert yaml.__with_libyaml__


@pytest.mark.parametrize(
    ("text", "place"), [("a: [1,", (1, 7)), ("a: 1\nb: {c", (2, 6)), ("- &a\n- *", (2, 4))]
)
def test_what_is_missing_at_the_end_is_told_at_the_end(text: str, place: tuple[int, int]) -> None:
    assert read(text) == (None, [("syntax", *place)])
