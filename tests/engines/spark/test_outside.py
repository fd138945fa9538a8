"""Sources and sinks beside brokers on a real Spark: files, recordings, clocks, databases, hooks."""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.errors import OperationFailed
from millrace.ports import JobState
from tests.engines.spark.lab import Case, Lab, balanced, json_record, objects, wait_until

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]


def append(path: Path, *texts: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts)


def numbers(case: Case, stream: str, least: int = 0) -> Counter[int]:
    return Counter(item["n"] for item in objects(case.read(stream, least)))


def test_files_that_grow_are_read_once_through_stops(lab: Lab) -> None:
    text = """
    streams:
      lines: {schema: {n: int}, key: n, partitions: 2, dead_letters: dead}
      dead: {format: text}
    jobs:
      source: {read: in/*.jsonl, to: lines}
    """
    with lab.case(text) as case:
        one, two = case.code / "in" / "a.jsonl", case.code / "in" / "b.jsonl"
        append(one, *(json.dumps({"n": n}) for n in range(500)), "no json")
        case.start()
        assert numbers(case, "lines", 500) == Counter(range(500))
        append(two, *(json.dumps({"n": n}) for n in range(500, 800)))
        case.read("lines", 700)
        case.stop()
        one.rename(case.code / "in" / "old.jsonl")
        append(one, *(json.dumps({"n": n}) for n in range(800, 1000)))
        case.start()
        assert numbers(case, "lines", 1000) == Counter(range(1000))
        assert [record.value for record in case.read("dead", 1)] == [b"no json"]
        fates = case.fates("source", 1001)
        assert (fates.read, fates.malformed, fates.lost_sight) == (1001, 1, 0)
        assert balanced(fates)
        record = case.read("lines")[0]
        assert (record.header("millrace-origin") or b"").split()[1] == b"@source"


def test_a_recording_and_a_table_end_by_themselves(lab: Lab) -> None:
    text = """
    streams:
      told: {schema: {n: int, at: timestamp}}
      cars: {schema: {id: int, plate: string}}
      kinds: {schema: {b: binary, d: "array<double>", m: "map<string,int>", p: "decimal(4,2)"}}
    jobs:
      replay: {read: {replay: trip.jsonl, by: at, speed: 20}, to: told}
      table: {read: {query: "SELECT id, plate FROM cars", by: id, database: "sqlite:cars.db"},
              to: cars, mode: drain}
      kinds: {read: {files: kinds.parquet, holds: parquet}, to: kinds, mode: drain}
    """
    with lab.case(text) as case:
        times = [f"2024-05-01T00:00:{second:02}Z" for second in range(0, 40, 2)]
        lines = (json.dumps({"n": n, "at": at}) for n, at in enumerate(times))
        append(case.code / "trip.jsonl", *lines)
        with closing(sqlite3.connect(case.code / "cars.db")) as database, database:
            database.execute("CREATE TABLE cars (id INTEGER PRIMARY KEY, plate TEXT)")
            database.executemany("INSERT INTO cars VALUES (?, ?)", [(7, "a"), (9, "b")])
        kinds: dict[str, Any] = {
            "b": [b"\xff\x00"],
            "d": [[math.inf, math.nan, 1.5]],
            "p": [Decimal("1.50")],
        }
        pairs = pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int32()))
        pq.write_table(pa.table({**kinds, "m": pairs}), case.code / "kinds.parquet")
        case.start()
        for job in ("replay", "table", "kinds"):
            case.wait_state(job, JobState.ENDED)
        assert numbers(case, "told") == Counter(range(20))
        assert objects(case.read("cars")) == [{"id": 7, "plate": "a"}, {"id": 9, "plate": "b"}]
        (row,) = objects(case.read("kinds"))
        assert (row["b"], row["m"], row["p"]) == ("/wA=", {"x": 1}, 1.5)
        assert row["d"] == ["Infinity", "NaN", 1.5]
        case.start("replay")  # all of it was told: it is over at once
        case.wait_state("replay", JobState.ENDED)
        assert case.count("told") == 20


def test_sources_that_trying_again_does_not_help(lab: Lab) -> None:
    """The planner's failures and those of tasks are told in their own words, and once."""
    text = """
    streams: {cars: {schema: {id: int, n: int}}}
    defaults: {jobs: {to: cars}}
    jobs:
      none: {read: {query: "SELECT n FROM cars", by: id, database: "sqlite:cars.db"}}
      twice: {read: {query: "SELECT n FROM cars", by: n, database: "sqlite:cars.db"}}
    """
    with lab.case(text) as case:
        with closing(sqlite3.connect(case.code / "cars.db")) as database, database:
            database.execute("CREATE TABLE cars (id INTEGER PRIMARY KEY, n INT)")
            database.executemany("INSERT INTO cars VALUES (?, ?)", [(7, 1), (9, 1)])
        for job, said in (("none", "`by: id` is no column"), ("twice", "`by: n` has 1 twice")):
            with suppress(OperationFailed):  # by which what the planner finds ends the start
                case.engine.start(case.order(job))
            case.started.append(job)
            case.wait_state(job, JobState.FAILED)
            status = case.engine.status()[job]
            assert status.error.startswith(f"job {job}: {said}"), status
            assert not status.transient


def test_a_clock_makes_code_fire(lab: Lab) -> None:
    text = """
    streams: {beats: {schema: {n: int}}, said: {schema: {tick: long, at: timestamp}}}
    jobs:
      beat: {every: 200 ms, map: "code:beat", to: beats}
      say: {every: 1 s, sql: "SELECT tick, at FROM ticks", to: said}
    """
    code = """
    def beat(record):
        return {"n": record["tick"]}
    """
    with lab.case(text, code=code) as case:
        case.start()
        case.read("beats", 3)
        case.read("said", 2)
        case.stop()
        case.start()
        case.read("beats", 6)
        case.stop()
        found = numbers(case, "beats")
        assert found == Counter(range(len(found)))


class Hook(ThreadingHTTPServer):
    """A web hook that refuses the first batch."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.got: list[tuple[str, list[Any]]] = []
        self.refused = 0


class _Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        first = not self.server.refused
        self.server.refused += 1
        if not first:
            lines = [json.loads(line) for line in data.splitlines()]
            self.server.got.append((self.headers["Authorization"], lines))
        self.send_response(503 if first else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def test_files_programs_and_hooks_get_every_record(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    program = tmp_path / "take.py"
    program.write_text(
        "import os, sys\nopen(sys.argv[1], 'a').write(sys.stdin.read())\n"
        "assert os.environ['MILLRACE_JOB'] == 'program'\n"
    )
    with hook() as server:
        text = f"""
        defaults: {{jobs: {{from: raw}}}}
        streams: {{raw: {{schema: {{n: int, name: string}}, dead_letters: dead}},
                   dead: {{format: raw}}}}
        jobs:
          table: {{write: {{files: out/table, format: parquet}}}}
          lines: {{write: {{files: out/lines}}}}
          twin: {{write: {{files: out/lines}}}}
          sheet: {{write: {{files: out/sheet, format: csv}}}}
          program: {{write: {{command: [{sys.executable}, {program}, {tmp_path}/got]}}}}
          hook: {{write: {{url: "http://127.0.0.1:{server.server_port}/",
                          token: {{secret: "file:{tmp_path}/token"}}}}}}
        """
        with lab.case(text) as case:
            case.send("raw", [json_record(n=n, name=f"it's {n}, yes") for n in range(20)])
            case.send("raw", [json_record(n="none")])
            case.start("table", "lines", "twin", "sheet", "program")
            case.engine.start(case.order("hook"))
            case.started.append("hook")
            for job in ("table", "lines", "twin", "sheet", "program"):
                fates = case.fates(job, 21)
                assert (fates.read, fates.used, fates.malformed) == (21, 20, 1)
            wait_until(lambda: case.engine.status()["hook"].state is JobState.FAILED, "refused")
            assert "answered 503" in case.engine.status()["hook"].error
            case.engine.start(case.order("hook"))
            wait_until(lambda: sum(len(lines) for _, lines in server.got) == 20, server.got)
            out = case.code / "out"
            assert Counter(pq.read_table(out / "table")["n"].to_pylist()) == Counter(range(20))
            for job in ("lines", "twin"):  # they share a folder, and no file in it
                id_ = json.loads((case.order(job).place / "checkpoint" / "metadata").read_text())
                found = out.glob(f"lines/batch={job}-{id_['id'][:13]}-*/*.txt")
                written = [line for path in found for line in path.read_text().splitlines()]
                assert Counter(json.loads(line)["n"] for line in written) == Counter(range(20))
            sheets = [path.read_text() for path in out.glob("sheet/*/*.csv")]
            assert sum(sheet.count("yes") for sheet in sheets) == 20
            got = [json.loads(line)["n"] for line in (tmp_path / "got").read_text().splitlines()]
            assert Counter(got) == Counter(range(20))
            assert {token for token, _ in server.got} == {"Bearer sesame"}
