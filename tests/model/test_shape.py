from __future__ import annotations

from typing import Annotated, Any

import pytest

from millrace.model import Impact, Job, Pilot, Site, Stream, Window
from millrace.model.impact import setting
from millrace.model.job import Input
from millrace.model.quantity import Duration, Records
from millrace.model.shape import Record, record_of, records_in, shape_of
from millrace.model.text import written

RECORDS = {
    record.of: record for cls in (Site, Pilot, Stream, Job) for record in records_in(record_of(cls))
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.of.__name__)
def test_every_field_says_what_it_means(record: Record) -> None:
    assert record.of.__doc__
    for field in record.fields:
        assert field.doc, f"{record.of.__name__}.{field.key}"
        assert not field.doc.endswith(".")
    assert len(set(record.keys)) == len(record.keys)


def test_silence_means_the_dearest_change() -> None:
    said = setting("x").metadata["setting"]
    assert said.change is Impact.STATE_LOST


def test_impacts_are_ordered_by_cost() -> None:
    assert sorted(Impact) == [
        Impact.IGNORE,
        Impact.RESCALE,
        Impact.RESTART,
        Impact.REPLACE,
        Impact.STATE_LOST,
    ]


def test_short_forms_name_fields_that_exist() -> None:
    for record in RECORDS.values():
        assert record.short is None or record.short in record.keys


def test_records_are_read_once() -> None:
    assert record_of(Job) is record_of(Job)
    assert record_of(Job).field("from").attribute == "inputs"


def test_written_leaves_defaults_out_and_uses_short_forms() -> None:
    job = Job(name="a", site="s", inputs=(Input(stream="x"),), sql="SELECT 1")
    assert written(job) == {"site": "s", "from": "x", "sql": "SELECT 1"}
    assert written(Window(of=Duration(10**9))) == "1 s"


def test_written_refuses_what_files_do_not_have() -> None:
    with pytest.raises(TypeError, match="no way to write a set"):
        written({1})


def test_windows_know_their_kind_and_shape() -> None:
    second = Duration(10**9)
    assert (Window(of=Records(3), every=Records(2)).kind, Window(of=Records(3)).shape) == (
        "capacity",
        "tumbling",
    )
    assert (Window(of=second).kind, Window(of=second, by="at").kind) == ("wallclock", "timestamp")
    assert Window(gap=second, by="at").shape == "session"
    assert Window(of=second, every=Duration(5)).shape == "sliding"


def test_an_annotation_without_a_known_mark_is_its_plain_type() -> None:
    shape: Any = shape_of(Annotated[str, "nothing"])
    assert shape == shape_of(str)
