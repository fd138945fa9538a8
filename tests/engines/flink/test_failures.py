"""What Flink says, in words for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.engines.flink.calls import Refused
from millrace.engines.flink.failures import cause_of, refused_run
from millrace.engines.flink.program import Program

PROGRAM = Program(Path("own.jar"), "0", "a.Main", (), 1, {})
TRACE = """org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoff
\tat org.apache.flink.A.b(A.java:1)
Caused by: java.lang.IllegalStateException: number 5 can't be written
\tat jobs.Numbers.map(Numbers.java:2)
"""


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (TRACE, "IllegalStateException: number 5 can't be written"),
        ("java.lang.NullPointerException\n\tat a.B.c(B.java:1)", "NullPointerException"),
        (
            "java.util.concurrent.CompletionException: java.io.IOException: disk full\n"
            "Caused by: java.io.IOException: disk full\n",
            "IOException: disk full",
        ),
        ("Something else\nhappened", "Something else"),
        ("", ""),
    ],
)
def test_the_deepest_cause_is_told(trace: str, cause: str) -> None:
    assert cause_of(trace) == cause


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (404, "Not found: /jars/upload", "no-submission"),
        (400, "The program's entry point class 'a.Main' was not found", "no-such-class"),
        (400, "ProgramInvocationException: The main method caused an error: x", "program-failed"),
        (503, "Service temporarily unavailable", "not-run"),
    ],
)
def test_refusals_have_codes(status: int, said: str, code: str) -> None:
    failure = refused_run(Refused(status, said), PROGRAM, "")
    assert failure.code == code
    assert failure.transient == (status == 503)
