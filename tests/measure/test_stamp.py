"""A stamp comes back as it was sent, or not at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.measure.stamp import MOST, SCHEMA, read_stamp, stamped
from millrace.ports import Record

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(0, MOST - 1)
STAMPS = st.builds(
    stamped, TEXTS, NUMBERS, NUMBERS, TEXTS, st.integers(0, 2**62), st.integers(0, 9000)
)


@given(STAMPS)
def test_what_is_written_is_read(record: Record) -> None:
    stamp = read_stamp(record.value)
    assert stamp is not None
    document = json.loads(record.value or b"")
    assert list(document) == list(SCHEMA)
    assert {name: getattr(stamp, name) for name in document if name != "crc"} == {
        name: value for name, value in document.items() if name != "crc"
    }
    assert record.key == stamp.key.encode()


@given(STAMPS)
def test_a_pipeline_may_write_it_in_another_form(record: Record) -> None:
    document = json.loads(record.value or b"")
    again = {"added": None} | dict(reversed(document.items()))
    text = json.dumps(again, indent=1, ensure_ascii=False)
    assert read_stamp(text.encode()) == read_stamp(record.value)


@given(STAMPS, st.data())
def test_a_change_of_any_field_is_seen(record: Record, data: st.DataObject) -> None:
    document = json.loads(record.value or b"")
    name = data.draw(st.sampled_from(sorted(document)))
    other = TEXTS if isinstance(document[name], str) else st.integers(-5, 2**64)
    document[name] = data.draw(other.filter(lambda value: value != document[name]))
    assert read_stamp(json.dumps(document).encode()) is None


def test_a_letter_that_goes_over_to_the_next_column_is_seen() -> None:
    document = json.loads(stamped("run", 0, 0, "key", 0, 200).value or b"")
    document |= {"run": "ru", "key": "nkey"}
    assert read_stamp(json.dumps(document).encode()) is None


@given(STAMPS, st.data())
def test_a_column_that_lacks_or_has_another_type_is_seen(
    record: Record, data: st.DataObject
) -> None:
    document = json.loads(record.value or b"")
    name = data.draw(st.sampled_from(sorted(document)))
    given_value = document.pop(name)
    assert read_stamp(json.dumps(document).encode()) is None
    document[name] = data.draw(st.sampled_from([None, True, [given_value], 1.5]))
    assert read_stamp(json.dumps(document).encode()) is None


@given(st.binary(max_size=50) | st.none())
def test_any_bytes_are_no_stamp(value: bytes | None) -> None:
    assert read_stamp(value) is None


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"run": "\\ud800"}', "1" * 5000, '{"run":1}', "NaN", "[]", '"x"']
)
def test_nasty_texts_are_no_stamps(text: str) -> None:
    assert read_stamp(text.encode()) is None


def test_a_lone_surrogate_is_no_stamp() -> None:
    value = stamped("run", 0, 0, "key", 0, 0).value or b""
    assert read_stamp(value.replace(b'"key":"key"', b'"key":"\\ud800"')) is None


@given(st.integers(150, 20_000), NUMBERS)
def test_the_value_has_about_its_size(size: int, seq: int) -> None:
    value = stamped("run", 1, seq, "k1", 1_700_000_000_000_000, size).value or b""
    assert abs(len(value) - size) <= 10


def test_neighbours_are_padded_differently() -> None:
    one, other = (read_stamp(stamped("run", 0, seq, "k", 0, 500).value) for seq in (1, 2))
    assert one is not None
    assert other is not None
    assert one.pad != other.pad


@pytest.mark.parametrize(("writer", "seq"), [(-1, 0), (0, -1), (MOST, 0), (0, MOST)])
def test_numbers_out_of_range_are_refused(writer: int, seq: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        stamped("run", writer, seq, "key", 0, 100)
