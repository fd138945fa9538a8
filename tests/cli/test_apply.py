"""`apply`, `plan`, `diff`, `rollback`, `delete` and `wait` against a coordinator of fakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.cli import following
from millrace.client import Client
from millrace.errors import OperationFailed
from millrace.machine.web import Web
from tests.api.house import House
from tests.cli.commands import Run, document
from tests.client.running import FILE, project


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a pipeline with code."""
    return str(project(tmp_path / "project"))


def changed(tmp_path: Path, old: str, new: str) -> str:
    return str(project(tmp_path / "project", FILE.replace(old, new)))


def revisions(house: House) -> int:
    boards = house.station.coordinator.boards
    return boards["traffic"].newest if "traffic" in boards else 0


def test_apply_shows_the_plan_the_steps_and_the_end(run: Run, house: House, file: str) -> None:
    done = run("apply", "-f", file, "--note", "first")
    assert done.returncode == 0, done.stderr
    assert "traffic, against nothing" in done.stdout
    assert "+ job seen" in done.stdout
    assert "Plan: 6 to create" in done.stdout
    assert "traffic: revision 1 is in force" in done.stdout
    assert "[6/6] create job" in done.stderr
    assert house.station.pipeline("traffic").running == 2


def test_the_same_file_again_sends_no_code_and_makes_no_revision(
    run: Run, house: House, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    upload = Web.upload

    def counted(web: Web, path: str, content: bytes) -> Any:
        sent.append(path)
        return upload(web, path, content)

    monkeypatch.setattr(Web, "upload", counted)
    assert run("apply", "-f", file).returncode == 0
    again = run("apply", "-f", file)
    assert again.returncode == 0
    assert "No changes" in again.stdout
    assert "nothing to do, revision 1 is in force" in again.stdout
    assert (len(sent), revisions(house)) == (1, 1)


def test_changed_code_restarts_its_job(run: Run, house: House, file: str) -> None:
    run("apply", "-f", file)
    (Path(file).parent / "code.py").write_text("def seen(record):\n    return None\n")
    done = run("apply", "-f", file)
    assert done.returncode == 0, done.stderr
    assert "~ job seen" in done.stdout
    assert "version: " in done.stdout
    assert "Jobs that stood still:" in done.stdout
    assert revisions(house) == 2


def test_a_dry_run_changes_nothing(run: Run, house: House, file: str) -> None:
    done = run("apply", "-f", file, "--dry-run")
    assert (done.returncode, revisions(house)) == (0, 0)
    assert "Plan: 6 to create" in done.stdout
    found = document(run("apply", "-f", file, "--dry-run", "-o", "json"))
    assert (found["revision"], len(found["steps"])) == (0, 6)
    assert list((house.home.place / "artifacts").glob("*")) == []


class Once(dict[str, OperationFailed]):
    """What goes wrong one time."""

    def __getitem__(self, name: str) -> OperationFailed:
        return self.pop(name)


def test_a_change_that_is_undone_exits_with_1(
    run: Run, house: House, file: str, tmp_path: Path
) -> None:
    run("apply", "-f", file)
    broken = OperationFailed("bad-sql", "there is no column speeed", "write speed")
    house.shops["traffic", "here"].spark.broken = Once(clean=broken)
    done = run("apply", "-f", changed(tmp_path, "speed > 0", "speeed > 1"))
    assert done.returncode == 1
    assert "was undone: " in done.stderr
    assert "there is no column speeed" in done.stderr
    assert "revision 1 of traffic is in force" in done.stderr


def test_what_an_engine_refuses_is_not_begun(
    run: Run, house: House, file: str, tmp_path: Path
) -> None:
    run("apply", "-f", file)
    refused = OperationFailed("bad-sql", "no such column: speeed")
    house.shops["traffic", "here"].spark.refused["clean"] = refused
    done = run("apply", "-f", changed(tmp_path, "speed > 0", "speeed > 1"), "-o", "json")
    assert done.returncode == 1
    assert document(done)["state"] == "refused"
    assert "was refused: " in done.stderr
    assert "no such column" in done.stderr


def test_forms_for_programs(run: Run, house: House, file: str) -> None:
    assert document(run("apply", "-f", file, "-o", "json"))["state"] == "done"
    assert run("apply", "-f", file, "-o", "name").stdout == "traffic.1\n"
    assert "state: done\n" in run("apply", "-f", file, "-o", "yaml").stdout


def test_several_files_are_applied_in_order(run: Run, house: House, tmp_path: Path) -> None:
    one = str(project(tmp_path / "one"))
    two = str(project(tmp_path / "two", FILE.replace("traffic", "other")))
    done = run("apply", "-f", one, "-f", two, "-o", "name")
    assert (done.returncode, done.stdout) == (0, "traffic.1\nother.1\n")
    twice = run("apply", "-f", one, "-f", one)
    assert (twice.returncode, "two files are of the pipeline" in twice.stderr) == (1, True)
    assert run("apply", "-f", one, "-f", two, "--if-revision", "1").returncode == 1


def test_a_revision_that_moved_is_refused(run: Run, house: House, file: str) -> None:
    assert run("apply", "-f", file, "--if-revision", "4").returncode == 1
    assert run("apply", "-f", file, "--if-revision", "0").returncode == 0
    done = run("apply", "-f", file, "--if-revision", "0")
    assert done.returncode == 1
    assert "= help: " in done.stderr


def test_nothing_is_applied_where_the_answer_is_no(
    run: Run, house: House, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def agreed(question: str, *, yes: bool) -> None:
        asked.append(f"{question} {yes}")

    monkeypatch.setattr("millrace.cli.apply.agreed", agreed)
    run("apply", "-f", file, "--yes", "--dry-run")
    assert asked == []
    run("apply", "-f", file, "--yes")
    assert asked == ["Do it? True"]
    following.agreed("never asked without a terminal", yes=False)


def test_no_wait_returns_at_once_and_wait_waits(run: Run, house: House, file: str) -> None:
    done = run("apply", "-f", file, "--no-wait", "-o", "name")
    assert (done.returncode, done.stdout) == (0, "traffic.1\n")
    waited = run("wait", "traffic.1", "--for", "done", "--timeout", "30s")
    assert waited.returncode == 0, waited.stderr
    assert "revision 1 is in force" in waited.stderr
    assert run("wait", "traffic").returncode == 0
    running = run("wait", "traffic", "--for", "running", "--timeout", "30s")
    assert (running.returncode, "traffic is running" in running.stderr) == (0, True)
    late = run("wait", "traffic", "--for", "removed", "--timeout", "100ms")
    assert (late.returncode, "is not removed in time" in late.stderr) == (1, True)
    assert run("wait", "nobody", "--for", "removed").returncode == 0
    assert run("wait", "nobody").returncode == 1
    assert run("wait", "nobody", "--for", "running").returncode == 1


def test_a_plan_is_kept_and_applied(run: Run, house: House, file: str, tmp_path: Path) -> None:
    done = run("plan", file, "--out", "saved.json")
    assert (done.returncode, "wrote saved.json" in done.stderr) == (0, True), done.stderr
    applied = run("apply", "--plan", "saved.json")
    assert applied.returncode == 0, applied.stderr
    again = run("apply", "--plan", "saved.json")
    assert again.returncode == 1
    run("plan", file, "--out", "saved.json")
    (Path(file).parent / "code.py").write_text("seen = print\n")
    other = run("apply", "--plan", "saved.json")
    assert (other.returncode, "code of seen changed since" in other.stderr) == (1, True)
    for text in ("", "{}", '{"millrace-plan": 1}', "[]"):
        Path("saved.json").write_text(text)
        assert "holds no plan" in run("apply", "--plan", "saved.json").stderr
    assert "can't be read" in run("apply", "--plan", "gone.json").stderr
    assert run("apply").returncode == 1
    assert run("apply", "-f", file, "--plan", "saved.json").returncode == 1


def test_plan_asks_the_coordinator_that_answers(run: Run, house: House, file: str) -> None:
    first = run("plan", file, "--detailed-exitcode")
    assert (first.returncode, first.stdout.startswith("traffic, against nothing")) == (2, True)
    run("apply", "-f", file)
    same = run("plan", file, "--detailed-exitcode")
    assert (same.returncode, "No changes" in same.stdout) == (0, True)
    offline = run("plan", file, "--offline")
    assert "6 to create" in offline.stdout
    assert "against" not in offline.stdout
    found = document(run("plan", file, "-o", "json"))
    assert (found["revision"], found["steps"], found["untouched_jobs"]) == (1, [], 2)
    assert run("plan", file, "--offline", "--out", "x").returncode == 1


def test_plan_goes_on_without_a_coordinator(run: Run, file: str, tmp_path: Path) -> None:
    plain = run("plan", file)
    assert (plain.returncode, plain.stderr) == (0, "")
    folder = tmp_path / "home" / "coordinator"
    folder.mkdir(parents=True)
    (folder / "address.json").write_text('{"url": "http://127.0.0.1:1", "certificate": null}')
    (folder / "token").write_text("mr_x")
    away = run("plan", file)
    assert (away.returncode, away.stdout) == (0, plain.stdout)
    assert "does not answer" in away.stderr
    asked = run("plan", file, "--server", "http://127.0.0.1:1")
    assert (asked.returncode, "can't be reached" in asked.stderr) == (1, True)


def test_diff_tells_fields_and_lines(run: Run, house: House, file: str, tmp_path: Path) -> None:
    new = run("diff", "-f", file)
    assert (new.returncode, "there is no traffic yet" in new.stderr) == (1, True)
    run("apply", "-f", file)
    same = run("diff", "-f", file)
    assert (same.returncode, "No difference" in same.stdout) == (0, True), same.stdout
    other = changed(tmp_path, "speed > 0", "speed > 5")
    done = run("diff", "-f", other)
    assert done.returncode == 1
    assert "jobs.clean.sql: SELECT * FROM raw WHERE speed > 0 -> SELECT" in done.stdout
    assert "\n+    sql: SELECT * FROM raw WHERE speed > 5\n" in done.stdout
    found = document(run("diff", "-f", other, "-o", "json"))
    assert [item["field"] for item in found["fields"]] == ["jobs.clean.sql"]
    assert run("diff", "-f", "gone.yaml").returncode == 2
    assert run("diff", "-f", file, "--server", "http://127.0.0.1:1").returncode == 2


def test_rollback_goes_to_the_one_before(run: Run, house: House, file: str, tmp_path: Path) -> None:
    run("apply", "-f", file)
    alone = run("rollback", "traffic")
    assert (alone.returncode, "no other revision" in alone.stderr) == (1, True)
    run("apply", "-f", changed(tmp_path, "speed > 0", "speed > 5"), "--allow-state-loss")
    done = run("rollback", "traffic", "--yes", "--allow-state-loss", "--note", "back")
    assert done.returncode == 0, done.stderr
    assert "traffic: revision 3 is in force" in done.stdout
    with Client.local(house.home.folders.state) as client:
        assert client.file("traffic") == client.file("traffic", 1)
    assert run("rollback", "traffic", "--to", "9").returncode == 1


def test_delete_removes_all(run: Run, house: House, file: str) -> None:
    run("apply", "-f", file)
    done = run("delete", "pipeline", "traffic", "--yes", "--no-wait", "-o", "name")
    assert (done.returncode, done.stdout) == (0, "traffic.2\n")
    assert "2 jobs and 3 streams go" in done.stderr
    assert run("wait", "traffic", "--for", "removed").returncode == 0
    assert run("get", "pipelines", "-o", "name").stdout == ""
    assert run("delete", "pipeline", "nobody", "--yes").returncode == 1


def test_problems_of_files_are_shown_before_anything_is_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("pipeline: p\njobs: {j: {from: gone, sql: x}}\n")
    project(tmp_path / "home" / "coordinator")
    (tmp_path / "home/coordinator/address.json").write_text(
        json.dumps({"url": "http://127.0.0.1:1", "certificate": None})
    )
    (tmp_path / "home/coordinator/token").write_text("mr_x")
    done = run("apply", "-f", "bad.yaml")
    assert (done.returncode, "there is no stream 'gone'" in done.stderr) == (1, True)
    away = run("apply", "-f", str(project(tmp_path / "good")))
    assert (away.returncode, "can't be reached" in away.stderr) == (1, True)
    assert "= help: is it up (millrace up)" in away.stderr


def problem_of(run: Run, *arguments: Any) -> str:
    done = run(*arguments)
    assert done.returncode == 1
    return done.stderr


def test_no_coordinator_says_how_to_get_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("mr_wrong")
    for command in (["get", "pipelines"], ["top"], ["events"], ["token", "list"], ["wait", "x"]):
        said = problem_of(run, *command)
        assert "no coordinator was started here" in said
        assert "start one: millrace up" in said


def test_a_wrong_token_is_told_with_the_way_out(run: Run, house: House, tmp_path: Path) -> None:
    token = "mr_abcdefgh_" + "x" * 43
    (tmp_path / "t").write_text(token)
    said = problem_of(run, "get", "pipelines", "--token-file", "t")
    assert "= help: " in said
    assert token not in said
