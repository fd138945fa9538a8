"""Steps that Spark analyzed once serve many queries, each with its own names and settings."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.engines.spark.formats import named, text
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.templates import blanked
from millrace.machine import Java
from millrace.ports import Record, origin_of
from tests.engines.spark.lab import Lab, json_record, objects

NOTHING: Any = cast("Any", None)
names = st.text(max_size=12)


def steps_of(*columns: str) -> Sketch:
    return Sketch(NOTHING, NOTHING).select(*columns).where(f"x = {named('in')}")


@given(names, names)
@example("it's", "back\\slash\\'")
@example("/*name*/'a'", "'")
def test_names_are_found_again_as_they_were(one: str, other: str) -> None:
    steps, found = blanked(steps_of(f"f({named(one)}, {text('kept')}) AS a", named(other)).steps)
    assert found == list(dict.fromkeys((one, other, "in")))
    assert steps[0].texts[0].endswith(", 'kept') AS a")


@given(names.filter(lambda name: name != "in"), names.filter(lambda name: name != "in"))
def test_steps_that_differ_by_names_alone_are_one(one: str, other: str) -> None:
    steps = [steps_of(f"{named(name)} AS a", f"{named(name)} AS b").steps for name in (one, other)]
    assert blanked(steps[0])[0] == blanked(steps[1])[0]


def test_what_is_one_name_here_and_two_there_is_not_one() -> None:
    assert (
        blanked(steps_of(named("a"), named("a")).steps)[0]
        != (blanked(steps_of(named("a"), named("b")).steps)[0])
    )


@pytest.mark.spark
@pytest.mark.xdist_group("spark-templates")
def test_jobs_alike_keep_their_own_names(lab: Lab) -> None:
    """Jobs and streams may be called what a word of a plan is."""
    every = ["key", "value", "name", "stream", "partition", "origin", "topic", "a", "b", "c"]
    lines = ["defaults: {streams: {format: raw}, jobs: {checkpoint: 60 s}}", "streams:"]
    lines += [f"  {name}: {{partitions: 2}}" for name in every] + ["jobs:"]
    lines += [
        f"  {name}: {{from: {name}, to: {after}, sql: SELECT * FROM {name}}}"
        for name, after in pairwise(every)
    ]
    with lab.case("\n".join(lines)) as case:
        case.start()
        case.send("key", [Record(str(n).encode(), str(n).encode()) for n in range(20)])
        for name, after in pairwise(every):
            found = case.read(after, 20)
            origins = [origin_of(record) for record in found]
            said = {(o.job, o.stream) for o in origins if o is not None}
            assert said == {(f"{case.pipeline.name}/{name}", name)}
            assert Counter(r.value for r in found) == Counter(str(n).encode() for n in range(20))


@pytest.mark.spark
@pytest.mark.xdist_group("spark-templates")
def test_jobs_alike_keep_their_own_settings(lab: Lab) -> None:
    """The time zone of a session is in what it analyzed."""
    zones = {"here": "UTC", "there": "Asia/Tokyo", "again": "UTC"}
    lines = ["streams: {raw: {schema: {n: int, at: string}}, here: {}, there: {}, again: {}}"]
    lines += ["jobs:"] + [
        f"  {name}: {{from: raw, to: {name}, mode: drain, options: {{spark.sql.session.timeZone: "
        f"{zone}}}, sql: 'SELECT n, CAST(at AS timestamp) AS at FROM raw'}}"
        for name, zone in zones.items()
    ]
    with lab.case("\n".join(lines)) as case:
        case.send("raw", [json_record(n=1, at="2026-01-01T12:00:00")])
        case.drain()
        said = {name: objects(case.read(name, 1))[0]["at"] for name in zones}
        assert said["here"] == said["again"] == "2026-01-01T12:00:00.000000Z"
        assert said["there"] == "2026-01-01T12:00:00.000000+09:00"


@pytest.mark.spark
@pytest.mark.xdist_group("spark-templates")
def test_versions_of_jobs_alike_leave_out_what_each_of_them_wrote(lab: Lab) -> None:
    """What is left out is by positions of three partitions, of which one has no record."""
    text = """
        defaults: {streams: {format: text}, jobs: {checkpoint: 60 s, mode: real-time}}
        streams: {x: {partitions: 3}, y: {partitions: 3}, ox: {}, oy: {}}
        jobs:
          jx: {from: x, to: ox, sql: SELECT * FROM x}
          jy: {from: y, to: oy, sql: SELECT * FROM y}
    """
    sent = {"x": 9, "y": 4}
    with lab.case(text) as case:
        version = case
        version.start()
        for turn in range(3):
            for name, many in sent.items():
                case.send(name, [
                    Record(f"{turn}.{n}".encode(), partition=2 * (n % 2)) for n in range(many)
                ])  # fmt: skip
            for name, many in sent.items():
                case.read(f"o{name}", (turn + 1) * many)
            version.stop()
            other = text.replace("FROM x", f"FROM x WHERE {turn} = {turn}")
            version = version.version(other.replace("FROM y", f"FROM y WHERE {turn} = {turn}"))
            version.start()
        for name, many in sent.items():
            case.send(name, [Record(b"last", partition=1)])
            found = Counter(record.value for record in case.read(f"o{name}", 3 * many + 1))
            wanted = [f"{turn}.{n}".encode() for turn in range(3) for n in range(many)]
            assert found == Counter([*wanted, b"last"])
        version.stop()


@pytest.mark.spark
def test_a_template_serves_what_is_alike_and_nothing_else(java: Java, tmp_path: Path) -> None:
    """Its frames share nothing that can change: many threads fill it at once."""
    program = [sys.executable, "-m", "tests.engines.spark.templates_alone", str(tmp_path)]
    environment = {**os.environ, "JAVA_HOME": str(java.home)}
    done = subprocess.run(
        program, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["alike"] == [["a0", "a1"], ["b0", "b1"], ["it's0", "it's1"]]
    assert found["one template"] == 1
    assert found["other settings"] == 2
    assert found["wide"] == ["w0", "w1"]
    assert found["other columns"] == found["after a union"] == 3
    assert found["union"] == ["u0", "u1", "u0", "u1"]
    assert found["side by side"] == [[f"{number}0"] for number in range(0, 100, 10)]
    assert found["own notes"]
