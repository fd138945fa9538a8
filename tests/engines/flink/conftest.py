"""One cluster for all tests, and jars that are compiled against its libraries."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.engines.flink import ManagedFlink
from millrace.engines.flink.cluster import libraries
from millrace.machine import Java
from millrace.machine.process import session_members
from millrace.ports import JobOrder
from millrace.spec import load_text

SOURCES = Path(__file__).parent / "java"
TEXT = """
pipeline: p
sites: {{here: {{engine: flink, broker: kafka}}}}
streams: {{raw: {{schema: {{n: int}}}}, done: {{schema: {{n: int}}}}}}
jobs:
  {job}:
    engine: flink
    from: raw
    to: done
    jar: {{path: {path}, entry: {entry}, arguments: [{arguments}]}}
    checkpoint: 300 ms
    options: {{{options}}}
"""

MakeOrder = Callable[..., JobOrder]


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the programs into jobs.jar, and return its folder."""
    folder = tmp_path_factory.mktemp("code")
    sources = [str(path) for path in sorted(SOURCES.glob("jobs/*.java"))]
    javac = ["javac", "-proc:none", "-nowarn", "-cp", f"{libraries()}/*", "-d"]
    subprocess.run([*javac, str(folder / "classes"), *sources], check=True, timeout=120)
    shutil.make_archive(str(folder / "jobs"), "zip", folder / "classes")
    (folder / "jobs.zip").rename(folder / "jobs.jar")
    return folder


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[ManagedFlink]:
    """Run a cluster for all tests; none of its processes is left."""
    place = tmp_path_factory.mktemp("flink")
    settings = {
        "taskmanager.numberOfTaskSlots": "12",
        # For jobs of who is attached; ours have theirs in their own folders.
        "execution.checkpointing.dir": f"file://{place}/checkpoints",
    }
    managed = ManagedFlink(place, java, settings)
    managed.launch()
    try:
        managed.wait()
        yield managed
    finally:
        pids = [child.pid for child in managed.cluster.children.values()]
        managed.kill()
        assert [session_members(pid) for pid in pids] == [[] for _ in pids]


@pytest.fixture
def order(code: Path, tmp_path: Path) -> MakeOrder:
    """Return a function that makes orders; numbers go to the file of the job's name."""

    def make(
        job: str,
        *arguments: str,
        entry: str = "jobs.Numbers",
        path: str = "jobs.jar",
        options: str = "",
        place: Path | None = None,
    ) -> JobOrder:
        given = arguments or (str(tmp_path / f"{job}.txt"), "1000000", "-")
        text = TEXT.format(
            job=job,
            path=path,
            entry=entry,
            arguments=", ".join(f'"{it}"' for it in given),
            options=options,
        )
        pipeline = load_text(text, "p.yaml").required()
        brokers = {"here": {"bootstrap.servers": "127.0.0.1:9"}}
        where = place or tmp_path / "jobs" / job / "1"
        return JobOrder(pipeline, pipeline.jobs[job], brokers, where, code)

    return make
