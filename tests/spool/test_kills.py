"""Writers that are killed, readers in other processes, and a second writer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millrace.spool import SpoolReader, SpoolWriter
from tests.spool.made import numbered

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPOOL_KILLS", "40"))


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def campaign(folder: Path, seed: int, kills: int, *place: str) -> dict[str, Any]:
    done = run("-m", "tests.spool.campaign", str(folder), str(seed), str(kills), *place)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["reads"] > 0
    return found


def test_nothing_reported_is_lost_whenever_a_writer_is_killed(tmp_path: Path) -> None:
    found = campaign(tmp_path / "spool", 7, KILLS)
    assert found["end"] > 10 * KILLS
    assert found["first"] > 0
    assert any(one["end"] > one["reported"] for one in found["rounds"])


@pytest.mark.parametrize(
    ("place", "there"), [("spool.write", False), ("spool.sync", True), ("spool.synced", True)]
)
def test_killed_at_a_named_place(tmp_path: Path, place: str, there: bool) -> None:
    """Before the write nothing is there; after it the system still has it, and readers don't."""
    found = campaign(tmp_path / "spool", 11, 8, place)
    for one in found["rounds"]:
        assert (one["end"] > one["reported"]) is there


def test_the_places_are_passed_in_order(tmp_path: Path) -> None:
    log = tmp_path / "places"
    program = (
        "import sys; from pathlib import Path; from millrace.ports import Record; "
        "from millrace.spool import SpoolWriter; w = SpoolWriter(Path(sys.argv[1])); w.commit(); "
        "[(w.append([Record(b'x')]), w.commit()) for _ in range(2)]"
    )
    done = run("-c", program, str(tmp_path / "spool"), MILLRACE_FAILPOINT_LOG=str(log))
    assert done.returncode == 0, done.stderr
    assert log.read_text().split() == [
        f"spool.{place}#{number}" for number in (1, 2) for place in ("write", "sync", "synced")
    ]


def test_another_process_is_refused_and_may_read(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(numbered(0, 3))
    writer.commit()
    writer.append(numbered(3, 3))
    program = (
        "import sys; from pathlib import Path; from millrace.errors import OperationFailed\n"
        "from millrace.spool import SpoolReader, SpoolWriter\n"
        "print([r.position for r in SpoolReader(Path(sys.argv[1])).read(0)])\n"
        "try: SpoolWriter(Path(sys.argv[1]))\n"
        "except OperationFailed as failure: print(failure.code, failure.transient)\n"
    )
    done = run("-c", program, str(tmp_path))
    assert done.stdout.splitlines() == ["[0, 1, 2]", "spool-held True"], done.stderr
    writer.commit()
    assert SpoolReader(tmp_path).span().end == 6
