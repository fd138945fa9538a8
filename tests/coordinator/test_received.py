"""Where queries go on whose streams nobody keeps: by what was received for them."""

from __future__ import annotations

import pytest

from tests.coordinator.test_starts import Lab

FILE = """
streams: {raw: {site: edge, schema: {n: int}}, out: {}}
jobs:
  one: {site: SITE, from: READS, to: out, sql: SELECT n FROM raw}
"""


def file(site: str = "here", reads: str = "raw") -> str:
    return FILE.replace("SITE", site).replace("READS", reads)


@pytest.fixture(autouse=True)
def mqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be a site with a broker of MQTT."""
    head = (
        "pipeline: p\nsites: {here: {broker: kafka}, there: {}, edge: {broker: mqtt, engine: []}}\n"
    )
    head += "defaults: {streams: {site: here}}\n"
    monkeypatch.setattr("tests.coordinator.test_starts.HEAD", head)


def test_a_job_without_state_takes_along_what_was_received_for_it() -> None:
    lab = Lab(rests=False)
    lab.apply(file())
    lab.ran("one", raw=7)
    lab.apply(file("there"))
    assert lab.goal("one").brought == ("here", 1)
    assert lab.goal("one").begins == {}


def test_positions_in_a_spool_are_good_where_it_is() -> None:
    """Another input makes another folder; the spool of the old one stays beside it."""
    lab = Lab(rests=False)
    lab.apply(file())
    lab.ran("one", raw=7)
    folders = lab.apply(file(reads="[raw, more]"))
    assert folders["one"] == 2
    assert lab.begins("one") == {"raw": {0: 7}}


def test_positions_in_a_spool_mean_nothing_elsewhere() -> None:
    lab = Lab(rests=False)
    lab.apply(file())
    lab.ran("one", raw=7)
    lab.apply(file("there", "[raw, more]"))
    assert lab.begins("one") == {}
