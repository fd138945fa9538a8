"""Records for plain Python functions: bytes to typed values, and back."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.typed import Malformed, converter, reader, writer
from millrace.model.stream import Format

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
GOOD: list[tuple[str, Any, Any]] = [
    ("byte", 127, 127),
    ("SMALLINT", -32768, -32768),
    ("int", 2**31 - 1, 2**31 - 1),
    ("bigint", -(2**63), -(2**63)),
    ("double", 1, 1.0),
    ("float", 1.5, 1.5),
    ("double", "Infinity", float("inf")),
    ("decimal(10,2)", 1.25, Decimal("1.25")),
    ("numeric", "1.25", Decimal("1.25")),
    ("string", "a", "a"),
    ("string", 1, "1"),
    ("string", {"a": [1, None]}, '{"a":[1,null]}'),
    ("boolean", True, True),
    ("timestamp", "2026-01-01T00:00:00Z", NEW_YEAR),
    ("timestamp", "2026-01-01 00:00:00", NEW_YEAR),
    ("timestamp", "2026-01-01T02:00:00+02:00", NEW_YEAR),
    ("timestamp", 1767225600, NEW_YEAR),
    (
        "timestamp_ltz",
        "2026-01-01T00:00:00.000001Z",
        NEW_YEAR + timedelta(microseconds=1),
    ),
    ("timestamp", "2026", NEW_YEAR),
    ("double", "-INF", float("-inf")),
    ("date", "2026-01-01", date(2026, 1, 1)),
    ("date", "2026-1-2", date(2026, 1, 2)),
    ("date", "2026-01-01T10:00:00", date(2026, 1, 1)),
    ("array<int>", [1, 2], [1, 2]),
    ("map<string,int>", {"a": 1}, {"a": 1}),
    ("struct<a:int>", {"a": 1}, {"a": 1}),
]
BAD: list[tuple[str, Any]] = [
    ("byte", 128),
    ("smallint", 32768),
    ("int", 2**31),
    ("int", -(2**31) - 1),
    ("bigint", 2**63),
    ("int", 1.5),
    ("int", "1"),
    ("int", True),
    ("int", [1]),
    ("double", "1.5"),
    ("double", True),
    ("double", {}),
    ("decimal(10,2)", "x"),
    ("decimal(10,2)", True),
    ("decimal(10,2)", " "),
    ("decimal(10,2)", "NaN"),
    ("boolean", 1),
    ("boolean", "true"),
    ("timestamp", "soon"),
    ("timestamp", ""),
    ("timestamp", True),
    ("timestamp", 1.5),
    ("timestamp", 10**12),
    ("timestamp", 10**17),
    ("timestamp", -(10**17)),
    ("timestamp", "2026-02-30T00:00:00Z"),
    ("date", "2026-13-01"),
    ("date", 1),
    ("date", ""),
    ("date", "2026-01-01x"),
    ("timestamp", "20260101"),
    ("timestamp", "2026-W01-1"),
    ("timestamp", "2026-01-01T00:00Z"),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), GOOD)
def test_a_value_becomes_that_of_its_column(kind: str, value: Any, wanted: Any) -> None:
    found = converter(kind)(value)
    assert found == wanted
    assert type(found) is type(wanted)
    read = reader(Format.JSON, {"a": kind, "b": "string"})
    assert read(json.dumps({"a": value, "more": 1}).encode()) == {"a": wanted, "b": None}


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_a_value_that_does_not_fit_makes_the_record_malformed(kind: str, value: Any) -> None:
    with pytest.raises((Malformed, ValueError)):
        converter(kind)(value)
    read = reader(Format.JSON, {"a": kind})
    assert read(json.dumps({"a": value}).encode()) is None
    assert read(b'{"a": null}') == read(b"{}") == {"a": None}


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b" ",
        b"null",
        b"1",
        b"[]",
        b'"a"',
        b"{",
        b"\xff",
        b"x{}",
        b"{}x",
        b"{} {}",
        b"[" * 5000,
    ],
)
def test_what_is_no_object_is_malformed(value: bytes | None) -> None:
    assert reader(Format.JSON, {"a": "int"})(value) is None


def test_what_spark_takes_is_taken() -> None:
    """Though it is not quite JSON."""
    read = reader(Format.JSON, {"a": "int", "d": "double", "s": "string"})
    none = {"a": None, "d": None, "s": None}
    assert read(b' {"a":1}\n') == {**none, "a": 1}
    assert read(b'{"d":1e400}') == {**none, "d": float("inf")}
    assert str(read(b'{"d":NaN}')) == "{'a': None, 'd': nan, 's': None}"
    assert read(b'{"s":"\xff"}') == {**none, "s": "\ufffd"}
    assert read(b"{'a':1}") is None


def test_raw_and_text_are_never_malformed() -> None:
    raw, text = reader(Format.RAW, {"v": "binary"}), reader(Format.TEXT, {"line": "string"})
    assert raw(b"\xff") == {"v": b"\xff"}
    assert raw(None) == {"v": None}
    assert text("ä".encode()) == {"line": "ä"}
    assert text(b"\xff") == {"line": "\ufffd"}
    assert text(None) == {"line": None}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"1,a,true,1.5", {"i": 1, "s": "a", "b": True, "d": 1.5}),
        (b"-1,,False,", {"i": -1, "s": None, "b": False, "d": None}),
        (b'1,"a,""b""\nc",true,NaN', None),
        (b"1,a,true", None),
        (b"1,a,true,1,2", None),
        (b"x,a,true,1", None),
        (b"2147483648,a,true,1", None),
        (b"1,a,yes,1", None),
        (b"1,a,true,fast", None),
        (b"\xff,a,true,1", None),
        (b"", None),
        (None, None),
    ],
)
def test_lines_of_csv(line: bytes | None, wanted: dict[str, Any] | None) -> None:
    read = reader(Format.CSV, {"i": "int", "s": "string", "b": "boolean", "d": "double"})
    found = read(line)
    if line is not None and b"NaN" in line:
        assert found is not None
        assert found["s"] == 'a,"b"\nc'
        assert found["d"] != found["d"]
    else:
        assert found == wanted


def test_times_in_csv() -> None:
    read = reader(Format.CSV, {"t": "timestamp", "y": "date"})
    assert read(b"2026-01-01T00:00:00Z,2026-01-01") == {"t": NEW_YEAR, "y": date(2026, 1, 1)}
    assert read(b"never,2026-01-01") is None


@given(st.binary())
def test_no_bytes_make_a_reader_fail(value: bytes) -> None:
    """A record is typed or malformed, whatever it is."""
    schema = {"a": "int", "t": "timestamp"}
    for kind in (Format.JSON, Format.CSV, Format.TEXT):
        found = reader(kind, schema)(value)
        assert found is None or isinstance(found, dict)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KINDS = sorted({kind for kind, _ in BAD})


@given(st.sampled_from(KINDS), scalars | st.lists(scalars, max_size=2))
def test_no_json_makes_a_reader_fail(kind: str, value: Any) -> None:
    read = reader(Format.JSON, {"a": kind})
    for text in (json.dumps({"a": value}), json.dumps({"a": value}, ensure_ascii=False)):
        found = read(text.encode("utf-8", "surrogatepass"))
        assert found is None or set(found) == {"a"}


moments = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)
).flatmap(
    lambda naive: st.integers(-840, 840).map(
        lambda minutes: naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    )
)  # fmt: skip
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"))
rows = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | plain.filter(bool),
        "b": st.none() | st.booleans(),
        "t": st.none() | moments,
        "y": st.none() | st.dates(),
    }
)
SCHEMA = {
    "i": "long", "d": "double", "s": "string", "b": "boolean", "t": "timestamp", "y": "date",
}  # fmt: skip


@given(st.sampled_from([Format.JSON, Format.CSV]), rows)
def test_what_is_written_is_read_again(format_: Format, row: dict[str, Any]) -> None:
    assert reader(format_, SCHEMA)(writer(format_, SCHEMA)(row)) == row


@given(rows)
def test_lines_are_those_of_everybody(row: dict[str, Any]) -> None:
    line = writer(Format.CSV, SCHEMA)(row).decode()
    [cells] = csv.reader([line])
    assert cells == ["" if row[name] is None else str(row[name]) for name in SCHEMA]


def test_a_writer_takes_only_columns_of_its_stream() -> None:
    write = writer(Format.JSON, {"a": "int", "b": "int"})
    assert json.loads(write({"b": 1})) == {"b": 1}
    with pytest.raises(TypeError, match="no column 'c'"):
        write({"a": 1, "c": 2})
    with pytest.raises(TypeError, match="must be a dict, not list"):
        write([1])
    assert json.loads(writer(Format.JSON, None)({"any": Decimal("1.5")})) == {"any": "1.5"}
    assert writer(Format.CSV, {"a": "int", "b": "string"})({"b": 'x"'}) == b',"x"""'


@pytest.mark.parametrize("kind", [Format.RAW, Format.TEXT])
def test_plain_results(kind: Format) -> None:
    write = writer(kind, None)
    assert [write(value) for value in ("ä", b"\xff", bytearray(b"x"), {"any": "y"})] == [
        "ä".encode(),
        b"\xff",
        b"x",
        b"y",
    ]
    for wrong in (1, None, {"a": 1}, {"a": "x", "b": "y"}, ["x"]):
        with pytest.raises(TypeError, match="must be bytes or text"):
            write(wrong)
