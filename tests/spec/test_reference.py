from __future__ import annotations

from millrace.model import Job, Pilot, Site, Stream
from millrace.model.shape import record_of, records_in
from millrace.spec.document import TOP_KEYS
from millrace.spec.reference import reference


def test_the_page_has_every_field_of_every_thing() -> None:
    page = reference()
    for cls in (Site, Pilot, Stream, Job):
        for record in records_in(record_of(cls)):
            for field in record.fields:
                assert f"| `{field.key}` | {field.doc}".replace("|", "") in page.replace("|", "")
    for key in TOP_KEYS:
        assert f"| `{key}` |" in page


def test_each_thing_is_described_once() -> None:
    headings = [line for line in reference().splitlines() if line.startswith("#")]
    assert len(headings) == len(set(headings))
