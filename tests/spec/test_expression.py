from __future__ import annotations

from typing import Any

import pytest

from millrace.spec.expression import (
    MOST_WORK,
    Evaluator,
    Expression,
    ExpressionError,
    as_text,
    parts_of,
)


def value(text: str, **names: Any) -> Any:
    return Evaluator().value(Expression(text), names)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("limit * 2", 260),
        ("double(limit) / 4.0", 32.5),
        ("'a-' + string(limit)", "a-130"),
        ("limit > 100 ? 'big' : 'small'", "big"),
        ("[1, 2].map(i, i * limit)", [130, 260]),
        ("range(3)", [0, 1, 2]),
        ("{'a': [limit]}", {"a": [130]}),
        ("null", None),
        ("duration('90s')", "90 s"),
        ("timestamp('2020-01-01T00:00:00Z')", "2020-01-01T00:00:00+00:00"),
        ("has({'a': 1}.b)", False),
    ],
)
def test_values_keep_their_types(text: str, result: Any) -> None:
    found = value(text, limit=130)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plain", ("plain",)),
        ("${{ a }}", (Expression("a"),)),
        ("x ${{ a }} y ${{ b }}", ("x ", Expression("a"), " y ", Expression("b"))),
        ("$${{ a }}", ("${{ a }}",)),
        ("${{ {'a': {'b': 1}}.a.b }}", (Expression("{'a': {'b': 1}}.a.b"),)),
        ("${{ '}}' }}", (Expression("'}}'"),)),
        (r"${{ '\'}}' }}", (Expression(r"'\'}}'"),)),
    ],
)
def test_texts_are_split_into_parts(text: str, parts: Any) -> None:
    assert parts_of(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limt * 2", "'limt' is not known here"),
        ("1 +", "not an expression"),
        ("limit + 1.0", "overload"),
        ("{'a': 1}.b", "there is no 'b' in it"),
        ("1 / 0", "division by zero"),
        ("[1][5]", "index out of bounds"),
        ("b'x'", "of a kind (bytes)"),
        ("range(-1)", "out of bounds"),
        ("9223372036854775807 + 1", "overflow"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message.replace("(", r"\(").replace(")", r"\)")):
        value(text, limit=130)


def test_a_near_name_is_offered() -> None:
    with pytest.raises(ExpressionError) as caught:
        value("limt * 2", limit=130)
    assert caught.value.near == "limit"
    assert "limit" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "range(100000).map(a, range(100000).map(b, range(100000)))",
        "range(100000).map(a, range(100000))",
        "big.map(a, big.map(b, big.map(c, a + b + c)))",
        "big.all(a, big.all(b, big.all(c, big.all(d, true))))",
        "range(n).map(a, range(n).map(b, range(n).map(c, range(n))))",
        "long + long + long",
        "1" + " + 1" * 400,
        "(" * 300 + "1" + ")" * 300,
        "!" * 999 + "true",
        "x" * 1001,
        "range(100001)",
        "size(range(150).map(x, range(150).map(y, [" + "1," * 89 + "1])))",
        "size(huge" + " + huge" * 100 + ")",
        "size([huge" + ", huge" * 100 + "])",
        "'x' + long" + " + long" * 100,
        "long.matches('(.{0,200}){0,40}x')",
    ],
)
def test_no_expression_runs_long_or_makes_much(text: str) -> None:
    names = {
        "big": list(range(3000)),
        "n": 100_000,
        "long": "x" * 30_000,
        "huge": list(range(100_000)),
    }
    try:
        result = Evaluator().value(Expression(text), names)
    except ExpressionError:
        result = None
    assert result is None or result in (401, False, True)


def test_all_expressions_of_a_document_share_a_budget() -> None:
    evaluator = Evaluator()
    names = {"big": list(range(1000))}
    for _ in range(5):
        evaluator.value(Expression("big.map(a, a)"), names)
    evaluator.work = MOST_WORK - 10_000
    with pytest.raises(ExpressionError, match="too long"):
        evaluator.value(Expression("big.map(a, a)"), names)


def test_numbers_beyond_the_language_are_told() -> None:
    with pytest.raises(ExpressionError, match="'n'"):
        value("n + 1", n=2**2000)


def test_deep_values_are_refused() -> None:
    deep: Any = 1
    for _ in range(30):
        deep = [deep]
    with pytest.raises(ExpressionError, match="too deep"):
        value("x", x=deep)


def test_an_expression_that_is_not_closed_is_told() -> None:
    with pytest.raises(ExpressionError, match="not closed"):
        parts_of("${{ a")


def test_only_plain_values_stand_inside_a_text() -> None:
    assert [as_text(item) for item in (True, False, 3, 1.5, "x")] == [
        "true",
        "false",
        "3",
        "1.5",
        "x",
    ]
    with pytest.raises(ExpressionError, match="only texts"):
        as_text([1])


def test_names_of_an_expression_are_known() -> None:
    assert set(Evaluator().names(Expression("a + b.c"))) == {"a", "b"}
