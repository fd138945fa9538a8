"""What an agent keeps of a pipeline between starts, and that only one runs it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from millrace.agent.state import Applied, alone, read_applied, write_applied
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from tests.strategies import pipelines


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(pipelines())
def test_what_is_kept_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, pipeline: Pipeline
) -> None:
    place = tmp_path_factory.mktemp("state")
    applied = Applied(pipeline, {name: number for number, name in enumerate(pipeline.jobs)})
    write_applied(place, applied)
    assert read_applied(place) == applied
    assert [path.name for path in place.iterdir()] == ["applied.json"]


def test_a_pipeline_that_never_ran_has_nothing(tmp_path: Path) -> None:
    assert read_applied(tmp_path) == Applied()
    assert read_applied(tmp_path / "nowhere").places == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"pipeline": {"pipeline": "p", "jobs": {"j": {"from": "nothing"}}}}),
    ],
)
def test_what_can_not_be_read_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "applied.json").write_text(text)
    with pytest.raises(OperationFailed) as caught:
        read_applied(tmp_path)
    assert caught.value.code == "state-broken"
    assert str(tmp_path) in caught.value.message
    assert "move" in caught.value.hint


HOLD = """
import sys
from pathlib import Path
from millrace.agent.state import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    place = tmp_path / "p"
    command = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(OperationFailed) as caught, alone(place):
            pass
        assert caught.value.code == "already-running"
        assert str(first.pid) in caught.value.message
        assert "--home" in caught.value.hint
        first.kill()
        first.wait(10)
    with alone(place):
        assert (place / "run.lock").read_text() == str(os.getpid())
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    with alone(place):
        pass
