"""`millrace check` as a user types it, as far as it goes without a broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from millrace.cli.check import check, check_text
from millrace.measure.fault import RunReport
from millrace.measure.histogram import Summary
from millrace.measure.report import Found, Report
from millrace.measure.stamp import SCHEMA

APP = typer.Typer()
APP.command("check")(check)
COLUMNS = ", ".join(f"{name}: {kind}" for name, kind in SCHEMA.items())
FILE = """\
pipeline: probe
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {COLUMNS}}
  clean: {schema: {COLUMNS}}
  other: {schema: {vehicle: string}}
  bytes: {format: raw}
jobs:
  pass: {from: raw, to: clean, sql: SELECT * FROM raw}
  other: {from: clean, to: other, python: "code:other"}
  bytes: {from: clean, to: bytes, python: "code:bytes"}
"""


def typed(write: Callable[..., Path], *arguments: str) -> tuple[int, str]:
    file = write(FILE.replace("COLUMNS", COLUMNS))
    done = CliRunner().invoke(
        APP, [*arguments, "-f", str(file), "--home", str(file.parent / "home")]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("raw", "cleam"), 1, "no stream 'cleam' = help: did you mean clean?"),
        (("raw", "other"), 1, "stream other has no column run, writer, seq"),
        (("raw", "bytes"), 1, "stream bytes has the format raw"),
        (("raw", "clean", "--rate", "nan"), 2, "--rate"),
        (("raw", "clean", "--for", "100000d"), 1, "are too many"),
        (("raw", "clean", "--for", "soon"), 2, "'soon' is not a time"),
        (("raw", "clean", "--keys", "0"), 2, "--keys"),
        (("raw", "clean"), 1, "the broker of site here does not run"),
    ],
)
def test_what_can_not_be_checked_is_said(
    write: Callable[..., Path], arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, text = typed(write, *arguments)
    assert found == code
    assert said in text


def test_a_clean_run_as_people_see_it() -> None:
    latency = Summary(count=10, p50=0.0123, p99=0.2, max=1.5)
    found = RunReport(Report(sent=10, read=10, latency=latency), 100.0, 105.0)
    assert check_text(found, "raw", "clean").plain == (
        "raw -> clean\n"
        "\n"
        "  sent         10 in 5.0 s\n"
        "  read         10\n"
        "  missing      0\n"
        "  duplicate    0\n"
        "  reordered    0\n"
        "  unexpected   0\n"
        "  corrupt      0\n"
        "  latency p50  12.3 ms\n"
        "  latency p99  200.0 ms\n"
        "  latency max  1500.0 ms\n"
        "\n"
        "Check: each record arrived once, in order.\n"
    )


def test_problems_as_people_see_them() -> None:
    report = Report(sent=10, read=9, missing=Found(1, ((0, 4),)), foreign=3)
    text = check_text(RunReport(report, 100.0, 105.0), "raw", "clean").plain
    assert "  missing        1 (writer/seq 0/4)\n" in text
    assert "  of other runs  3\n" in text
    assert "  latency p50    -\n" in text
    assert "Problem: missing: 1 (writer/seq 0/4) of 10 never arrived\n" in text
    assert text.endswith("Check: 1 found.\n")
