"""A spool against a plain list: any order of append, commit, trim and reopen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.ports import Record, Span
from millrace.spool import SpoolReader, SpoolWriter
from tests.spool.made import RECORDS, placed, quick_folder

TIMED = st.builds(
    Record, value=st.binary(max_size=60), time=st.none() | st.integers(0, 40), key=st.none()
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(RECORDS | TIMED, max_size=5)),
        st.tuples(st.sampled_from(["commit", "reopen"]), st.just(0)),
        st.tuples(st.just("trim"), st.integers(-1, 60)),
    ),
    max_size=40,
)


@dataclass
class Model:
    """What a spool should hold."""

    kept: list[Record] = field(default_factory=list)
    pending: list[Record] = field(default_factory=list)
    #: No position from here on was ever trimmed.
    trimmed: int = 0

    def check(self, folder: Path) -> None:
        reader = SpoolReader(folder)
        span = reader.span()
        assert span.end == len(self.kept)
        assert span.first <= self.trimmed
        assert list(reader.read(span.first)) == placed(self.kept[span.first :], span.first)
        middle = (span.first + span.end) // 2
        assert [record.position for record in reader.read(middle, middle + 3)] == list(
            range(middle, min(middle + 3, span.end))
        )
        for time in (0, 17, 40):
            assert reader.since(time) == self.since(time, span)

    def since(self, time: int, span: Span) -> int:
        found = (
            position
            for position in range(span.first, span.end)
            if (at := self.kept[position].time) is not None and at >= time
        )
        return next(found, span.end)


@settings(max_examples=150)
@given(STEPS, st.sampled_from([1, 200, 2000, 1 << 20]))
def test_it_holds_what_a_list_would(steps: list[tuple[str, object]], size: int) -> None:
    model = Model()
    with quick_folder() as folder:
        writer = SpoolWriter(folder, segment_bytes=size)
        for step in steps:
            match step:
                case "append", list(records):
                    place = writer.append(records)
                    assert place == len(model.kept) + len(model.pending)
                    model.pending += records
                case "commit", _:
                    model.kept += model.pending
                    model.pending.clear()
                    assert writer.commit() == len(model.kept)
                case "trim", int(before):
                    writer.trim(before)
                    model.trimmed = max(model.trimmed, min(before, len(model.kept)))
                    whole = before >= len(model.kept)
                    assert not whole or SpoolReader(folder).span().first == len(model.kept)
                case "reopen", _:
                    writer.close()
                    model.pending.clear()
                    writer = SpoolWriter(folder, segment_bytes=size)
            assert writer.end == len(model.kept)
            model.check(folder)
        writer.close()
