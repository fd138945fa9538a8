"""New versions of jobs with state: they go on where the state fits, and are refused where not."""

from __future__ import annotations

import pytest

from millrace.errors import OperationFailed
from millrace.ports import JobState
from tests.engines.spark.lab import Lab, json_record, objects, wait_until

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
TEXT = """
streams:
  raw: {schema: {car: string, n: int, at: timestamp}}
  views: {schema: {id: int, who: string, at: timestamp}}
  clicks: {schema: {view: int, n: int, at: timestamp}}
  counts: {}
  seen: {}
jobs:
  counts:
    from: raw
    to: counts
    window: {of: 10 s, by: at, per: car, late: count}
    aggregate: {AGGREGATE}
  seen:
    from: [{stream: views, by: at, lateness: 1 min}, {stream: clicks, by: at, lateness: 1 min}]
    to: seen
    sql: >
      SELECT COLUMNS FROM views JOIN clicks
      ON id = view AND clicks.at BETWEEN views.at AND views.at + INTERVAL 10 SECONDS
"""


def text(aggregate: str = "cars: count(*)", columns: str = "id, n") -> str:
    return TEXT.replace("AGGREGATE", aggregate).replace("COLUMNS", columns)


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def test_windows_and_joins_take_new_code_where_their_state_fits(lab: Lab) -> None:
    with lab.case(text()) as first:
        first.send("raw", [json_record(car="a", n=n, at=at(n)) for n in range(4)])
        first.send("views", [json_record(id=n, who=f"w{n}", at=at(n)) for n in range(4)])
        first.start()
        first.progress("counts", 4)
        first.progress("seen", 4)
        first.stop()

        second = first.version(text("vehicles: count(*)", "id, n * 10 AS n"))
        second.send("raw", [json_record(car="a", n=9, at=at(5)), json_record(car="b", at=at(30))])
        second.send("clicks", [json_record(view=n, n=n, at=at(n + 1)) for n in range(2)])
        second.start()
        (window,) = objects(second.read("counts", 1))
        assert (window["car"], window["vehicles"]) == ("a", 5)
        assert objects(second.read("seen", 2)) == [{"id": 0, "n": 0}, {"id": 1, "n": 10}]
        second.stop()

        third = first.version(text("n: count(*), sum: sum(n)", "id, who, n"))
        with pytest.raises(OperationFailed) as refused:
            third.start("counts")
        assert refused.value.code == "state-misfit"
        assert "argument 0 was not there and is n now" in refused.value.message
        assert not refused.value.transient
        third.start("seen")
        third.send("clicks", [json_record(view=2, n=2, at=at(3))])
        wait_until(lambda: lab.engine.status()["seen"].state is JobState.FAILED, "it goes on")
        status = lab.engine.status()["seen"]
        assert ("does not fit the query" in status.hint, status.transient) == (True, False)


SUMS = """
streams: {raw: {schema: {car: string, n: int, at: timestamp}}, sums: {}}
jobs:
  sums:
    from: raw
    to: sums
    emit: updates
    mode: micro-batch
    sql: "SELECT car, MADE FROM raw GROUP BY car"
"""


def test_sums_of_the_engine_go_on_only_as_what_they_were(lab: Lab) -> None:
    """The state of a sum and of a maximum look alike to Spark, which would go on with either."""
    with lab.case(SUMS.replace("MADE", "sum(n) AS n")) as first:
        first.send("raw", [json_record(car="a", n=n, at=at(n)) for n in (1, 2)])
        first.start()
        first.progress("sums", 2)
        first.stop()
        second = first.version(SUMS.replace("MADE", "max(n) AS n"))
        with pytest.raises(OperationFailed) as refused:
            second.start()
        assert refused.value.code == "state-misfit"
        assert "was sum(n) by car and is max(n) by car now" in refused.value.message
        third = first.version(SUMS.replace("MADE", "sum(n) * 10 AS tenfold"))
        third.send("raw", [json_record(car="a", n=4, at=at(9))])
        third.start()
        third.progress("sums", 3)
        assert {"car": "a", "tenfold": 70} in objects(third.read("sums", 2))
