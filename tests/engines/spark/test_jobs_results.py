"""What jobs make of records, compared with a plain computation; each job drains and ends."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from millrace.ports import JobState, Record
from tests.engines.spark.doubtful import DOUBTFUL
from tests.engines.spark.lab import Case, Lab, balanced, json_record, multiset, objects

pytestmark = [pytest.mark.xdist_group("spark-results"), pytest.mark.timeout(600)]
CARS = "schema: {car: string, speed: double}"
SPEEDS = [(f"c{number % 7}", float(number)) for number in range(60)]


def cars(first: int = 0) -> list[Record]:
    return [json_record(car, car=car, speed=speed + first) for car, speed in SPEEDS]


ALL_KINDS = f"""
        defaults: {{jobs: {{mode: drain}}, streams: {{partitions: 2}}}}
        streams:
          raw: {{{CARS}}}
          more: {{{CARS}}}
          sql: {{{CARS}, key: car}}
          union: {{{CARS}}}
          again: {{{CARS}}}
          one: {{{CARS}}}
          other: {{{CARS}}}
          frame: {{schema: {{car: string, twice: double}}}}
          fast: {{}}
          slow: {{}}
          first: {{}}
          second: {{}}
          mapped: {{key: car, schema: {{car: string, n: int}}}}
          high: {{{CARS}}}
          low: {{{CARS}}}
          both: {{schema: {{car: string, speed: double}}}}
        jobs:
          sql: {{from: raw, to: sql, sql: "SELECT car, speed FROM raw WHERE speed > 30"}}
          union: {{from: [raw, {{stream: more, as: m}}], to: union,
                   sql: "SELECT * FROM raw WHERE speed < 5 UNION ALL SELECT * FROM m"}}
          again: {{from: [raw, {{stream: raw, as: r}}], to: again,
                   sql: "SELECT * FROM raw WHERE speed < 5 UNION ALL SELECT * FROM r"}}
          twins: {{from: [raw, {{stream: more, as: m}}], to: [one, other],
                   sql: "SELECT * FROM raw UNION ALL SELECT * FROM m"}}
          frame: {{from: raw, to: frame, python: "code:doubled"}}
          dict: {{from: raw, to: [fast, {{stream: slow, as: lame}}], python: "code:split"}}
          tuple: {{from: raw, to: [first, second], python: "code:pair"}}
          map: {{from: raw, to: mapped, map: "code:none_one_many"}}
          routes: {{from: raw, to: [high, low], map: "code:route"}}
          both: {{from: [raw, more], to: both, map: "code:same"}}
        """
KIND_CODE = """
        import helper

        def doubled(raw):
            return raw.selectExpr("car", f"speed * {helper.FACTOR} AS twice")

        def split(raw):
            fast, slow = raw.where("speed >= 20"), raw.where("speed < 20").select("speed")
            return {"fast": fast, "lame": slow}

        def pair(raw):
            return raw.select("car"), raw.where("speed > 1000")

        def none_one_many(record):
            return [{"car": record["car"], "n": n} for n in range(int(record["speed"]) % 3)]

        def route(record):
            yield ("high" if record["speed"] >= 20 else "low"), record
            if record["speed"] == 7:
                yield "high", record

        def same(record):
            return record
        """


def test_every_kind_gives_what_plain_python_gives(lab: Lab) -> None:
    """SQL, a frame, a dict and a tuple of frames, and a function over records."""
    with lab.case(ALL_KINDS, helper="FACTOR = 2", code=KIND_CODE) as case:
        case.send("raw", cars())
        case.send("more", cars(1000))
        case.drain()
        check_frames(case)
        check_maps(case)


def rows(speeds: list[tuple[str, float]]) -> list[dict[str, object]]:
    return sorted(
        ({"car": car, "speed": speed} for car, speed in speeds),
        key=lambda item: json.dumps(item, sort_keys=True),
    )


def check_frames(case: Case) -> None:
    sql = case.read("sql")
    assert objects(sql) == rows([(car, speed) for car, speed in SPEEDS if speed > 30])
    assert all(record.key == json.loads(record.value or b"")["car"].encode() for record in sql)
    more = [(car, speed + 1000) for car, speed in SPEEDS]
    assert objects(case.read("union")) == rows([item for item in SPEEDS if item[1] < 5] + more)
    assert objects(case.read("again")) == rows([item for item in SPEEDS if item[1] < 5] + SPEEDS)
    twice = sorted(item["twice"] for item in objects(case.read("frame")))
    assert twice == [2 * speed for _, speed in SPEEDS]
    assert objects(case.read("fast")) == rows([item for item in SPEEDS if item[1] >= 20])
    slow = sorted(item["speed"] for item in objects(case.read("slow")))
    assert slow == [float(number) for number in range(20)]
    assert [item["car"] for item in objects(case.read("first"))] == sorted(c for c, _ in SPEEDS)
    assert case.read("second") == []
    fates = case.fates("sql", 60)
    assert (fates.used, fates.filtered, fates.written) == (29, 31, {"sql": 29})
    assert case.fates("dict", 60).written == {"fast": 40, "slow": 20}
    assert case.fates("union", 120).used == 65
    assert case.fates("again", 120).written == {"again": 65}
    assert objects(case.read("one")) == objects(case.read("other")) == rows(SPEEDS + more)
    assert case.fates("twins", 120).written == {"one": 120, "other": 120}
    assert all(balanced(case.fates(job, 60)) for job in case.pipeline.jobs)


def check_maps(case: Case) -> None:
    expected = sorted((car, n) for car, speed in SPEEDS for n in range(int(speed) % 3))
    mapped = case.read("mapped")
    assert sorted((item["car"], item["n"]) for item in objects(mapped)) == expected
    assert all(record.key == json.loads(record.value or b"")["car"].encode() for record in mapped)
    fates = case.fates("map", 60)
    assert (fates.used, fates.filtered, fates.written) == (40, 20, {"mapped": 60})
    high = [item for item in SPEEDS if item[1] >= 20 or item[1] == 7]
    assert objects(case.read("high")) == rows(high)
    assert objects(case.read("low")) == rows([item for item in SPEEDS if item[1] < 20])
    assert case.fates("routes", 60).written == {"high": 41, "low": 20}
    more = [(car, speed + 1000) for car, speed in SPEEDS]
    assert objects(case.read("both")) == rows(SPEEDS + more)
    assert sorted(case.progress("both", 120).positions) == ["more", "raw"]


POLICIES = f"""
        streams:
          raw: {{{CARS}, dead_letters: dead}}
          dead: {{format: raw}}
          skipped: {{{CARS}}}
          retried: {{{CARS}}}
          stopped: {{{CARS}}}
        jobs:
          skip: {{from: raw, to: skipped, map: "code:skip", mode: drain}}
          retry: {{from: raw, to: retried, map: "code:retry", mode: drain,
                   on_error: {{policy: retry, retries: 2}}}}
          stop: {{from: raw, to: stopped, map: "code:skip", on_error: stop}}
        """


def test_error_policies_of_map(lab: Lab) -> None:
    """Skipped ones become dead letters; each retry is a call; stop ends the job for good."""
    with lab.case(
        POLICIES,
        code=f"""
        CALLS = {str(lab.place / "calls")!r}

        def skip(record):
            if record["speed"] == 3:
                raise ValueError("three is not liked")
            return record

        def retry(record):
            with open(CALLS, "a") as calls:
                calls.write(f"{{record['speed']}} ")
            with open(CALLS) as calls:
                tries = calls.read().split().count(str(record["speed"]))
            if record["speed"] == 3 or record["speed"] == 5 and tries < 3:
                raise ValueError("not yet")
            return record
        """,
    ) as case:
        case.send("raw", cars()[:10])
        case.drain("skip", "retry")
        skipped = sorted(item["speed"] for item in objects(case.read("skipped")))
        assert skipped == [float(n) for n in range(10) if n != 3]
        assert len(case.read("retried")) == 9
        calls = Path(lab.place / "calls").read_text().split()
        assert [calls.count(str(float(n))) for n in range(10)] == [1, 1, 1, 3, 1, 3, 1, 1, 1, 1]
        letters = case.read("dead")
        causes = sorted(bytes(letter.header("millrace-cause") or b"") for letter in letters)
        assert causes == [b"ValueError: not yet", b"ValueError: three is not liked"]
        assert {letter.value for letter in letters} == {cars()[3].value}
        fates = [case.fates(job, 10) for job in ("skip", "retry")]
        assert [(item.used, item.dropped, item.filtered) for item in fates] == [(9, 1, 0)] * 2
        case.start("stop")
        case.wait_state("stop", JobState.FAILED)
        status = lab.engine.status()["stop"]
        assert "three is not liked" in status.error
        assert (status.transient, bool(status.hint)) == (False, True)


MOMENT = "2026-03-04T05:06:07.123456Z"
FORMATS = {
    "json": f'{{"car":"a,\\"b","at":"{MOMENT}","speed":1.5}}',
    "csv": f'"a,""b",{MOMENT},1.5',
}


def test_formats_pass_through_two_jobs(lab: Lab) -> None:
    """What one job wrote in a format another reads, and microseconds and quotes survive."""
    kinds = ("sql", "map")
    streams = [
        f"in_{name}: {{format: {name}, {TYPED}}}" for name in ("json", "csv")
    ] + [
        f"{name}_{kind}: {{format: {name}, {TYPED}}}" for name in ("json", "csv") for kind in kinds
    ]  # fmt: skip
    first = [
        f"{name}_{kind}: {{from: in_{name}, to: {name}_{kind}, {_same(kind, f'in_{name}')}}}"
        for name in ("json", "csv")
        for kind in kinds
    ]
    second = [
        f"{reader}_{name}_{kind}: {{from: {name}_{kind}, to: end_{reader}_{name}_{kind}, "
        f"{_same(reader, f'{name}_{kind}')}}}"
        for name in ("json", "csv")
        for kind in kinds
        for reader in kinds
    ]
    ends = [f"end_{job.partition(':')[0]}: {{{TYPED}}}" for job in second]
    text = "\n  ".join(["defaults: {jobs: {mode: drain}}\nstreams:", *streams, *ends])
    text += "\njobs:\n  " + "\n  ".join([*first, *second])
    with lab.case(text, code="def same(record):\n    return record") as case:
        for name, value in FORMATS.items():
            case.send(f"in_{name}", [Record(value.encode(), b"k")])
        case.drain(*(job.partition(":")[0] for job in first))
        case.drain(*(job.partition(":")[0] for job in second))
        for end in ends:
            [record] = case.read(end.partition(":")[0])
            found = json.loads(record.value or b"")
            found["at"] = found["at"].replace("+00:00", "Z").replace(" ", "T")
            assert found == {"car": 'a,"b', "at": MOMENT, "speed": 1.5}, end
            assert record.key == b"k"


TYPED = "schema: {car: string, at: timestamp, speed: double}"


def _same(kind: str, stream: str) -> str:
    return 'map: "code:same"' if kind == "map" else f'sql: "SELECT * FROM {stream}"'


def test_raw_and_text_are_taken_as_they_are(lab: Lab) -> None:
    with lab.case(
        """
        defaults: {jobs: {mode: drain}}
        streams:
          bytes: {format: raw}
          words: {format: text, schema: {line: string}}
          loud: {format: text}
          same: {format: raw}
          mapped: {format: raw}
          lines: {format: text}
        jobs:
          upper: {from: words, to: loud, sql: "SELECT upper(line) AS line FROM words"}
          copy: {from: bytes, to: same, sql: "SELECT value FROM bytes"}
          reverse: {from: bytes, to: mapped, map: "code:reverse"}
          number: {from: words, to: lines, map: "code:number"}
        """,
        code="""
        def reverse(record):
            return record["value"][::-1]

        def number(record):
            return {"any": str(len(record["line"]))}
        """,
    ) as case:
        values = [b"\x00\xff", b"", b"{"]
        case.send("bytes", [Record(value) for value in values])
        case.send("words", [Record("süß".encode()), Record(b"")])
        case.drain()
        assert [record.value for record in case.read("same")] == values
        assert [record.value for record in case.read("mapped")] == [v[::-1] for v in values]
        assert [record.value for record in case.read("loud")] == ["SÜSS".encode(), b""]
        assert [record.value for record in case.read("lines")] == [b"3", b"0"]


def test_sql_and_map_take_the_same_records_as_malformed(lab: Lab) -> None:
    columns = "schema: {i: int, d: double, s: string, b: boolean, t: timestamp, y: date}"
    with lab.case(
        f"""
        defaults: {{jobs: {{mode: drain}}}}
        streams:
          raw: {{{columns}}}
          by_sql: {{format: text}}
          by_map: {{format: text}}
        jobs:
          sql: {{from: raw, to: by_sql, sql: "SELECT 'x' AS value FROM raw"}}
          map: {{from: raw, to: by_map, map: "code:fine"}}
        """,
        code="def fine(record):\n    return 'x'\n",
    ) as case:
        records = [*(text.encode() for text in DOUBTFUL), b'{"s":"\xff"}', b"\xff\xfe"]
        case.send("raw", [Record(value, base64.b64encode(value)) for value in records])
        case.drain()
        by_sql, by_map = (
            {base64.b64decode(key or b"") for key, _ in multiset(case.read(name))}
            for name in ("by_sql", "by_map")
        )
        beyond = b'{"t":100000000000000000}'  # a year that Python's times do not reach
        assert (sorted(by_sql - by_map), sorted(by_map - by_sql)) == ([beyond], [])
        assert len(by_sql) < len(records)
        behind = [b"{} {}", b"{}{}", b"{}}", b'{"i":1}x', b'{"i":1},{"i":2}']
        assert not by_sql.intersection(behind)  # what comes after would be lost without a word


PROBLEMS = {
    "missing": ('sql: "SELECT car FROM raw"', "schema-does-not-fit", "speed is missing", "schema"),
    "other": (
        'sql: "SELECT *, 1 AS odd FROM raw"',
        "schema-does-not-fit",
        "odd is not among them",
        "streams.out.schema",
    ),
    "type": (
        "sql: \"SELECT car, 'x' AS speed FROM raw\"",
        "schema-does-not-fit",
        "speed is string and can't be double",
        "select those columns",
    ),
    "reserved": ('sql: "SELECT 1 AS __x FROM raw"', "reserved-name", "'__x'", "AS"),
    "syntax": ('sql: "SELECT car FORM raw WHERE"', "bad-sql", "WHERE", "jobs.j.sql"),
    "column": ('sql: "SELECT caar FROM raw"', "bad-query", "`car`", "schemas"),
    "view": ('sql: "SELECT car FROM rwa"', "bad-query", "rwa", "schemas"),
    "none": ('python: "code:nothing"', "no-frame", "NoneType", "return a DataFrame"),
    "number": ('python: "code:number"', "no-frame", "int", "a dict of one for each output"),
    "names": ('python: "code:names"', "other-outputs", "wrong", "under its name"),
    "raises": ('python: "code:raises"', "bad-code", "KeyError", ""),
    "module": ('python: "kode:nothing"', "no-module", "kode", "code:"),
    "function": ('map: "code:nothin"', "no-function", "nothin", "'nothing'"),
    "option": (
        'options: {spark.jars: x}, sql: "SELECT 1"',
        "setting-not-allowed",
        "spark.jars",
        "",
    ),
}


def test_what_can_not_run_is_found_before_the_start(lab: Lab) -> None:
    """Each message says what is wrong, and each hint what to do."""
    code = """
    def nothing(raw):
        return None

    def number(raw):
        return 7

    def names(raw):
        return {"wrong": raw}

    def raises(raw):
        return {}["speed"]
    """
    for name, (job, wanted, message, hint) in PROBLEMS.items():
        text = f"streams: {{raw: {{{CARS}}}, out: {{{CARS}}}}}\njobs: {{j: {{from: raw, to: out, "
        with lab.case(f"{text}{job}}}}}", code=code) as case:
            found = case.failure()
            assert (found.code, found.transient) == (wanted, False), (name, found)
            assert message in found.message, (name, found)
            assert hint in found.hint, (name, found)
            assert re.search(r"job j\b|stream out\b", found.message), (name, found)
    text = f"streams: {{raw: {{{CARS}}}}}\njobs: {{j: {{from: raw, sql: SELECT car FROM raw}}}}"
    with lab.case(text) as case:
        assert case.failure().code == "no-output"


def test_a_stream_without_a_schema_takes_its_writers(lab: Lab) -> None:
    """Through two jobs that are examined together; a reader alone can't know it."""
    with lab.case(
        f"""
        defaults: {{jobs: {{mode: drain}}}}
        streams: {{raw: {{{CARS}}}, middle: {{}}, end: {{}}}}
        jobs:
          a-late: {{from: middle, to: end, sql: "SELECT twice / 2 AS half FROM middle"}}
          z-early: {{from: raw, to: middle, sql: "SELECT car, speed * 2 AS twice FROM raw"}}
        """
    ) as case:
        alone = case.failure("a-late")
        assert alone.code == "no-schema"
        assert "streams.middle.schema" in alone.hint
        facts = case.examine()
        assert facts["z-early"].schemas["middle"] == {"car": "string", "twice": "double"}
        assert facts["a-late"].schemas["end"] == {"half": "double"}
        case.send("raw", cars())
        case.drain("z-early")
        case.drain("a-late")
        halves = sorted(item["half"] for item in objects(case.read("end")))
        assert halves == [speed for _, speed in SPEEDS]
