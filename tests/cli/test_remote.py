"""`get`, `describe`, `logs`, `events`, `top`, `peek`, `token` and completion."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.cli import completing, logs, watching
from millrace.client import Client
from millrace.coordinator.home import Home
from millrace.coordinator.keyring import Wanted
from millrace.machine import Folders
from millrace.machine.web import Web
from tests.api.house import House, until
from tests.cli.commands import Run, document
from tests.client.running import project, written


@pytest.fixture
def up(run: Run, house: House, tmp_path: Path) -> House:
    """Return a coordinator with a pipeline that runs."""
    done = run("apply", "-f", str(project(tmp_path / "project")))
    assert done.returncode == 0, done.stderr
    until(lambda: house.station.pipeline("traffic").running == 2)
    return house


COMMAND = Path(sys.executable).parent / "millrace"
KINDS = ("pipelines", "jobs", "streams", "sites", "operations", "revisions", "tokens")


def test_get_lists_every_kind_in_every_form(run: Run, up: House) -> None:
    for kind, name in zip(
        KINDS,
        ("traffic", "traffic/clean", "traffic/raw", "here", "traffic.1", "1", None),
        strict=True,
    ):
        table = run("get", kind)
        assert table.returncode == 0, table.stderr
        assert table.stdout.splitlines()[0].startswith(kind.removesuffix("s"))
        names = run("get", kind, "-o", "name").stdout.split()
        assert name is None or name in names
        found = document(run("get", kind, "-o", "json"))
        assert len(found) == len(names)
        assert run("get", kind, "-o", "yaml").stdout.startswith("- ")
    assert "running" in run("get", "pipelines").stdout
    assert "2/2" in run("get", "pipelines", "traffic").stdout
    assert len(document(run("get", "jobs", "traffic", "-o", "json"))) == 2
    assert run("get", "operations", "other", "-o", "name").stdout == ""
    assert "tokens are of no pipeline" in run("get", "tokens", "traffic").stderr
    assert run("get", "things").returncode == 2


def test_empty_lists_say_what_to_do_next(run: Run, house: House) -> None:
    for kind in KINDS[:-1]:
        done = run("get", kind)
        assert (done.returncode, done.stdout) == (0, "")
        assert "millrace apply -f pipeline.yaml" in done.stderr
    assert document(run("get", "pipelines", "-o", "json")) == []
    assert "apply" in run("top").stderr


def test_a_name_that_is_nearly_right_is_offered(run: Run, up: House) -> None:
    for command in (["get", "jobs", "trafic"], ["describe", "pipeline", "trafic"]):
        done = run(*command)
        assert (done.returncode, "did you mean traffic?" in done.stderr) == (1, True)
    assert "write PIPELINE/JOB" in run("describe", "job", "clean").stderr
    assert "did you mean clean?" in run("describe", "job", "traffic/claen").stderr


def test_describe_tells_all(run: Run, up: House) -> None:
    told = {
        ("pipeline", "traffic"): ("2 of 2 run", "traffic/clean", "traffic/raw"),
        ("job", "traffic/clean"): ("running", "from", "raw", "0 read: 0 used"),
        ("stream", "traffic/raw"): ("written by|read by", "json"),
        ("site", "here"): ("up", "traffic"),
        ("operation", "traffic.1"): ("done     create job clean", "6 of 6 done", "0 -> 1"),
    }
    for (kind, name), texts in told.items():
        done = run("describe", kind, name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[0] == kind
        for text in texts:
            assert any(part in done.stdout for part in text.split("|")), done.stdout
        assert document(run("describe", kind, name, "-o", "json"))
        assert run("describe", kind, name, "-o", "yaml").returncode == 0
    assert "can't be read" in run("describe", "gone.yaml", "job").stderr


def test_watch_shows_what_changes(
    run: Run, up: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            up.station.coordinator.boards  # noqa: B018 - nothing changes at first
        if looks == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", _Clock(sleep))
    done = run("get", "pipelines", "-w")
    assert done.returncode == 130
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["pipeline", "traffic"]
    looks = 0
    lines = run("get", "jobs", "-w", "-o", "json").stdout.splitlines()
    assert {json.loads(line)["name"] for line in lines} == {"clean", "seen"}
    looks = 0
    assert run("get", "sites", "-w", "-o", "yaml").stdout.startswith("- name: here")


class _Clock:
    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep
        self.time = time.time


def test_logs_show_the_end_and_follow(run: Run, up: House, monkeypatch: pytest.MonkeyPatch) -> None:
    log = up.shops["traffic", "here"].folder / "clean.log"
    quiet = run("logs", "traffic/clean")
    assert (quiet.stdout, "has written nothing" in quiet.stderr) == ("", True)
    log.write_text("".join(f"line {number}\n" for number in range(300)))
    shown = run("logs", "traffic/clean").stdout.splitlines()
    assert (len(shown), shown[0], shown[-1]) == (100, "line 200", "line 299")
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt
        with log.open("a") as file:
            file.write("news\n")

    monkeypatch.setattr(logs, "time", _Clock(sleep))
    done = run("logs", "traffic/clean", "-f", "--tail", "1")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (130, "news")
    assert run("logs", "traffic/gone").returncode == 1


class _Log:
    """A log that is told piece by piece, as an agent tells it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def log(self, _: str, __: str, after: int, most: int) -> dict[str, Any]:
        start = after if after >= 0 else max(len(self.data) - most, 0)
        data = self.data[start : start + most]
        return {"text": data.decode(), "next": start + len(data)}


@pytest.mark.parametrize("count", [0, 1, 100, 1500, 2999, 3000, 9999])
def test_the_last_lines_of_a_long_log_are_whole(count: int) -> None:
    lines = [f"line {number} {'x' * 90}\n" for number in range(3000)]
    data = "".join(lines).encode()
    found, after = logs._end(cast("Client", _Log(data)), "p", "j", count)
    assert (found, after) == (lines[3000 - min(count, 3000) :], len(data))


def test_events_tell_what_happened(run: Run, up: House, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("events")
    assert done.returncode == 0
    assert "pipeline traffic" in done.stdout
    assert "operation traffic.1" in done.stdout
    found = document(run("events", "-o", "json", "--after", "0"))
    last = found[-1]["number"]
    assert document(run("events", "-o", "json", "--after", str(last - 1)))[0]["number"] == last
    assert "operation" not in run("events", "--pipeline", "other").stdout
    assert "token" not in run("events", "--pipeline", "traffic").stdout
    events = Web.events

    def one(*given: Any, **named: Any) -> Any:
        up.station.keyring.issue(Wanted("x"), "test")
        found = events(*given, **named)
        yield next(found)
        found.close()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr(Web, "events", one)
    with_new = run("events", "-f", "--after", str(last - 1), "-o", "json")
    assert with_new.returncode == 130
    numbers = [json.loads(line)["number"] for line in with_new.stdout.splitlines()]
    assert numbers == [last, last + 1]


def test_top_shows_rates_once_in_a_pipe(run: Run, up: House) -> None:
    done = run("top")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == [
        *("job", "state", "rec/s", "lag", "batch", "batch", "age", "site")
    ]
    assert "traffic/seen" in done.stdout
    assert {job["name"] for job in document(run("top", "-o", "json"))} == {"clean", "seen"}


def test_peek_shows_the_last_records(run: Run, up: House) -> None:
    written(up, "raw", b'{"vehicle":  "a"}', b"\xff\x1b[2J", b"last")
    done = run("peek", "traffic/raw", "-n", "2")
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("\\xff\\x1b[2J")
    found = document(run("peek", "traffic/raw", "-o", "json"))
    assert found[1]["value"] == {"base64": "/xtbMko="}
    empty = run("peek", "traffic/seen")
    assert (empty.stdout, "holds no records" in empty.stderr) == ("", True)
    assert run("peek", "traffic/gone").returncode == 1


def test_tokens_are_shown_once_or_written_privately(run: Run, up: House, tmp_path: Path) -> None:
    made = run("token", "create", "me", "--role", "viewer", "--expires", "30d")
    assert made.stdout.startswith("mr_")
    assert "not shown again" in made.stderr
    done = run("token", "create", "edge", "--site", "north", "--out", "north.token")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    path = tmp_path / "north.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("mr_")
    again = run("token", "create", "edge", "--out", "north.token")
    assert (again.returncode, "can't be made" in again.stderr) == (1, True)
    listed = run("token", "list")
    assert "north" in listed.stdout
    assert made.stdout.strip() not in listed.stdout
    (tmp_path / "mine").write_text(made.stdout)
    assert run("get", "pipelines", "--token-file", "mine").returncode == 0
    refused = run("delete", "pipeline", "traffic", "--yes", "--token-file", "mine")
    assert (refused.returncode, "= help: " in refused.stderr) == (1, True)
    failed = run("token", "create", "x", "--out", "no.token", "--token-file", "mine")
    assert (failed.returncode, (tmp_path / "no.token").exists()) == (1, False)
    identity = made.stdout.split("_")[1]
    assert run("token", "revoke", identity).returncode == 0
    assert run("get", "pipelines", "--token-file", "mine").returncode == 1
    assert run("token", "revoke", "nobody00").returncode == 1


def completed(home: Path, *words: str) -> list[str]:
    """What a shell offers for the last word."""
    done = subprocess.run(
        [COMMAND],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "MILLRACE_HOME": str(home),
            "_MILLRACE_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("millrace", *words)),
            "COMP_CWORD": str(len(words)),
        },
    )
    assert done.stderr == ""
    return done.stdout.split()


def names_for(names: Any, home: Path, incomplete: str, **more: str) -> list[str]:
    """What is offered to a command that was given a home."""
    found: list[str] = names(SimpleNamespace(params={"home": home, **more}), incomplete)
    return found


def test_names_are_completed(up: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "LIMIT", 20.0)  # a busy machine is no part of this
    home = up.home.folders.state
    assert names_for(completing.pipeline_names, home, "t") == ["traffic"]
    assert names_for(completing.pipeline_names, home, "x") == []
    assert names_for(completing.job_names, home, "tr") == ["traffic/"]
    assert names_for(completing.job_names, home, "traffic/") == ["traffic/clean", "traffic/seen"]
    assert names_for(completing.stream_names, home, "traffic/r") == ["traffic/raw"]
    assert names_for(completing.operation_names, home, "") == ["traffic", "traffic.1"]
    described = completing.described_names
    assert names_for(described, home, "h", what="site") == ["here"]
    assert names_for(described, home, "", what="operation") == ["traffic.1"]
    assert names_for(described, home, "", what="pipeline.yaml") == []
    assert "pipelines" in completed(home, "get", "pi")
    # A busy machine may be later than a shell waits, so it is asked a few times.
    assert any(completed(home, "logs", "traffic/c") == ["traffic/clean"] for _ in range(6))


def test_a_shell_never_waits_long_and_hears_no_error(tmp_path: Path) -> None:
    assert names_for(completing.pipeline_names, tmp_path / "none", "t") == []
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        home = Home(Folders(tmp_path / "home", tmp_path))
        home.place.mkdir(parents=True)
        home.write_address(f"http://127.0.0.1:{silent.getsockname()[1]}", None)
        home.write_token("mr_x")
        names_for(completing.pipeline_names, home.folders.state, "")  # imports are paid for
        begun = time.monotonic()
        assert names_for(completing.pipeline_names, home.folders.state, "") == []
        assert time.monotonic() - begun < 2


def test_completion_scripts_are_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "--show-completion", "bash"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    assert "_MILLRACE_COMPLETE" in done.stdout


def test_every_command_has_help_with_an_example(run: Run) -> None:
    commands = (
        *("apply", "diff", "rollback", "delete", "wait", "get", "top", "logs", "peek", "events"),
        *("plan", "describe", "token create", "token list", "token revoke"),
    )
    for command in commands:
        done = run(*command.split(), "--help")
        assert done.returncode == 0
        assert f"Example: millrace {command}" in " ".join(done.stdout.split()), command
        assert "--server" in done.stdout


def test_the_library_of_requests_is_not_loaded_for_help() -> None:
    code = "import sys, millrace.cli.main; print([m for m in ('httpx', 'ssl') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "httpx" not in done.stdout
