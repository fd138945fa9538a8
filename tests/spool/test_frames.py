from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.ports import Record, Span
from millrace.spool import frames, mark
from millrace.spool.frames import headers_of, packed, taken
from tests.spool.made import RECORDS

POSITIONS = st.integers(0, 2**40)
MANY = st.lists(RECORDS, min_size=1, max_size=8)


def written(records: list[Record], start: int) -> bytes:
    return b"".join(b"".join(packed(record, start + n)) for n, record in enumerate(records))


@given(MANY, POSITIONS)
def test_any_record_comes_back(records: list[Record], start: int) -> None:
    found = taken(written(records, start), start, start + len(records))
    assert [
        Record(value, key, headers_of(headers), time=time)
        for _, time, key, headers, value in found.frames
    ] == records
    assert [frame[0] for frame in found.frames] == list(range(start, start + len(records)))


@given(MANY, POSITIONS, st.data())
def test_any_cut_gives_whole_records_and_says_what_is_missing(
    records: list[Record], start: int, data: st.DataObject
) -> None:
    block = written(records, start)
    cut = data.draw(st.integers(0, len(block) - 1))
    found = taken(block[:cut], start, start + len(records))
    count = len(found.frames)
    assert count < len(records)
    assert found.used == len(written(records[:count], start)) <= cut
    assert not found.bad
    assert found.used + found.needs > cut
    whole = taken(block[: found.used + found.needs], start, start + len(records))
    assert len(whole.frames) + bool(whole.needs) > count


@given(MANY, POSITIONS, st.data())
def test_any_flipped_bit_is_seen(records: list[Record], start: int, data: st.DataObject) -> None:
    block = bytearray(written(records, start))
    bit = data.draw(st.integers(0, 8 * len(block) - 1))
    block[bit // 8] ^= 1 << bit % 8
    found = taken(bytes(block), start, start + len(records))
    assert len(found.frames) < len(records)
    assert found.bad or found.needs
    before = taken(written(records, start), start, start + len(found.frames))
    assert found.frames == before.frames


@given(RECORDS, POSITIONS, st.integers(1, 1000))
def test_bytes_of_another_position_are_not_taken(record: Record, start: int, other: int) -> None:
    assert taken(written([record], start), start + other, start + other + 1).bad


@given(st.integers(0, 4), POSITIONS)
def test_zeros_are_no_record(blocks: int, start: int) -> None:
    assert taken(bytes(blocks * 64), start, start + 1).frames == []


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST", 1000)
    with pytest.raises(OperationFailed) as failure:
        packed(Record(bytes(1000)), 0)
    assert failure.value.code == "record-too-large"
    assert failure.value.hint


def test_a_half_written_slot_of_the_mark_leaves_the_other() -> None:
    old, new = mark.slot(Span(3, 10)), mark.slot(Span(5, 2_000_000))
    assert mark.newest(old.ljust(512, b"\0") + new) == (Span(5, 2_000_000), 1)
    for cut in range(len(new)):
        torn = new[:cut] + old[cut:]
        found = mark.newest(old.ljust(512, b"\0") + torn)
        assert found is not None
        assert found[0] in (Span(3, 10), Span(5, 2_000_000))
        assert mark.newest(torn.ljust(512, b"\0") + old) is not None


@pytest.mark.parametrize("size", [0, 1, 19, 512, 540])
def test_a_mark_of_zeros_or_of_nothing_says_nothing(size: int) -> None:
    assert mark.newest(bytes(size)) is None
