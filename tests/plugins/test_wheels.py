"""A stranger's broker and engine, installed beside Millrace, are used as if they were ours."""

from __future__ import annotations

import ast
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millrace.machine import Child, leashed
from tests.plugins.environment import PLUGIN, Environment

pytestmark = [pytest.mark.xdist_group("plugins"), pytest.mark.timeout(300)]
#: What a plug-in may import of Millrace; its tests also what is for tests.
OPEN = ("millrace.ports", "millrace.model", "millrace.errors")
FILE = """\
pipeline: shop
sites: {here: {broker: shelf, engine: threads}}
streams:
  orders: {schema: {n: bigint}, partitions: 2}
  seen: {schema: {n: bigint, by: int}, partitions: 2}
  told: {schema: {n: bigint, by: int}}
jobs:
  sees: {from: orders, to: seen, engine: threads, map: "shop:sees"}
  tells: {from: seen, to: told, engine: threads, map: "shop:tells"}
"""
CODE = """\
def sees(order):
    return {"n": order["n"], "by": 1}


def tells(row):
    return row
"""
#: Prints the records of a stream when there are so many, or after some seconds.
READER = """\
import json, sys, time
from pathlib import Path
from millrace_shelf.plugin import SHELF

stream, least, home = "told", int(sys.argv[2]), Path(sys.argv[3])
(place,) = home.glob(f"**/{sys.argv[1]}/sites/here")
log, until = SHELF.log({"address": SHELF.address(place)}), time.monotonic() + 45
while True:
    ends = {part: span.end for part, span in log.ends(stream).items()}
    if sum(ends.values()) >= least or time.monotonic() > until:
        break
    time.sleep(0.05)
found = log.read(stream, dict.fromkeys(ends, 0), ends)
print(json.dumps([json.loads(record.value) for record in found]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "millrace.toml").touch()
    (tmp_path / "shop.yaml").write_text(FILE)
    (tmp_path / "shop.py").write_text(CODE)
    return tmp_path


@pytest.fixture
def coordinator(env: Environment, tmp_path: Path) -> Iterator[Path]:
    """Run a coordinator there, and return what it tells."""
    log = tmp_path / "up.log"
    command = [str(env.folder / "bin" / "millrace"), "up", "--listen", "127.0.0.1:0"]
    child = Child.start(leashed(command), log, environment=env.variables)
    until = time.monotonic() + 60
    try:
        while "http" not in log.read_text() and child.alive and time.monotonic() < until:
            time.sleep(0.05)
        assert child.alive, log.read_text()
        yield log
    finally:
        child.end(20)


def test_both_are_the_wheels(env: Environment) -> None:
    found = env.where("millrace", "millrace.ports.plugins", "millrace_shelf", "pytest")
    ours = {name: Path(file).is_relative_to(env.folder) for name, file in found.items()}
    assert ours.pop("pytest") is False
    assert set(ours.values()) == {True}, found


def test_the_package_imports_only_what_is_open() -> None:
    for file in [*PLUGIN.glob("src/**/*.py"), *PLUGIN.glob("tests/*.py")]:
        allowed = (*OPEN, "millrace.testing") if file.parent.name == "tests" else OPEN
        for name in _imported(file):
            if name.split(".")[0] == "millrace":
                assert name.startswith(allowed), f"{file}: {name}"


def _imported(file: Path) -> list[str]:
    """The modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_its_own_tests_pass_there(env: Environment, tmp_path: Path) -> None:
    """With the conformance suites of Millrace's wheel."""
    shutil.copytree(PLUGIN / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__py*"))
    done = env.run(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "tests",
        folder=tmp_path, limit=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "skipped" not in done.stdout


def test_a_file_may_name_its_kinds(env: Environment, project: Path) -> None:
    done = env.run("millrace", "validate", str(project / "shop.yaml"))
    assert done.returncode == 0, done.stderr
    assert "shop is valid (2 jobs, 3 streams, 1 site" in done.stdout


@pytest.mark.parametrize(("kind", "wrong"), [("shelf", "shelv"), ("threads", "thread")])
def test_an_unknown_kind_is_told_with_the_nearest(
    env: Environment, project: Path, kind: str, wrong: str
) -> None:
    text = FILE.replace(f": {kind}", f": {wrong}")
    (project / "shop.yaml").write_text(text)
    done = env.run("millrace", "validate", str(project / "shop.yaml"))
    assert done.returncode == 1
    assert f"nothing that is installed here knows '{wrong}'" in done.stderr
    assert f"did you mean '{kind}'?" in done.stderr


def test_a_pipeline_runs_over_it_and_is_changed_as_it_runs(
    env: Environment, project: Path, coordinator: Path
) -> None:
    """Nothing is lost and nothing is repeated, though jobs get other code under way."""
    _apply(env, project)
    _send(env, project, range(200), 2000)
    assert len(_told(env, 200)) == 200
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send, env, project, range(200, 1000), 150)
        assert len(_told(env, 220)) >= 220
        (project / "shop.py").write_text(CODE.replace('"by": 1', '"by": 2'))
        _apply(env, project)
        sending.result(60)
    _send(env, project, range(1000, 1100), 2000)
    rows = _told(env, 1100)
    assert Counter(row["n"] for row in rows) == Counter(range(1100)), coordinator.read_text()
    by = {row["n"]: row["by"] for row in rows}
    assert (by[200], by[1000], by[1099]) == (1, 2, 2)


def _apply(env: Environment, project: Path) -> None:
    done = env.run("millrace", "apply", "-y", "-f", str(project / "shop.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def _send(env: Environment, project: Path, numbers: range, rate: int) -> None:
    lines = "".join(json.dumps({"n": number}) + "\n" for number in numbers)
    command = ["send", "orders", "-f", str(project / "shop.yaml"), "--rate", str(rate)]
    done = env.run("millrace", *command, text=lines)
    assert done.returncode == 0, done.stderr


def _told(env: Environment, least: int, pipeline: str = "shop") -> list[dict[str, int]]:
    """What came out of the last job of a pipeline, when it is so much."""
    done = env.run("python", "-c", READER, pipeline, str(least), str(env.home))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, int]] = json.loads(done.stdout)
    return found


def test_a_job_that_gets_another_input_goes_on_where_it_was(
    env: Environment, project: Path, coordinator: Path
) -> None:
    """In a folder of its own: Millrace finds how far it was in what the engine keeps."""
    text = FILE.replace("pipeline: shop", "pipeline: store")
    more = '  adds: {from: more, to: told, engine: threads, map: "shop:tells"}\n'
    text = text.replace("  seen:", "  more: {schema: {n: bigint, by: int}}\n  seen:") + more
    (project / "shop.yaml").write_text(text)
    _apply(env, project)
    _send(env, project, range(100), 2000)
    assert len(_told(env, 100, "store")) == 100
    (project / "shop.yaml").write_text(text.replace("from: seen", "from: [seen, more]"))
    _apply(env, project)
    _send(env, project, range(100, 120), 2000)
    rows = _told(env, 120, "store")
    assert Counter(row["n"] for row in rows) == Counter(range(120)), coordinator.read_text()


def test_neither_spark_nor_kafka_need_be_installed(env: Environment, project: Path) -> None:
    (project / "shop.yaml").write_text(FILE.replace("pipeline: shop", "pipeline: alone"))
    code = (
        "import sys; sys.modules |= dict.fromkeys(('pyspark', 'pyarrow', 'confluent_kafka')); "
        "from millrace.cli.main import run; run()"
    )
    done = env.run("python", "-c", code, "run", str(project / "shop.yaml"), "--for", "1s")
    assert done.returncode == 0, done.stderr
    assert "alone runs: 2 jobs" in done.stderr
