"""What Spark says went wrong, in words that say what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, ParseException, PySparkException

from millrace.engines.spark.errors import analysis_failure, run_failure
from millrace.errors import OperationFailed

KNOWN = [
    ("java.io.IOException: No space left on device", "disk-full", "make room", True),
    ("Disk quota exceeded", "disk-full", "make room", True),
    (
        "org.apache.kafka.common.errors.TopicAuthorizationException: no",
        "no-rights",
        "rights",
        False,
    ),
    ("GroupAuthorizationException", "no-rights", "rights", False),
    ("SaslAuthenticationException: wrong", "not-authenticated", "sasl.password", False),
    ("UnknownTopicOrPartitionException: gone", "no-stream", "run the pipeline again", True),
    ("RecordTooLargeException: 2000000 bytes", "too-large", "max_record", False),
    ("[KAFKA_DATA_LOSS.COULD_NOT_READ]", "data-expired", "retention", False),
    ("No resolvable bootstrap urls given", "no-broker", "is the broker up", True),
    ("java.util.concurrent.TimeoutException: 60 s", "no-broker", "is the broker up", True),
    ("another writer of roads/fast has taken over", "fenced", "running twice", False),
    ("[MISSING_METADATA_FILE]", "checkpoint-broken", "copy it back", False),
    ("java.lang.OutOfMemoryError: Java heap space", "out-of-memory", "spark.driver.memory", True),
]


@pytest.mark.parametrize(("text", "code", "hint", "transient"), KNOWN)
def test_a_known_text_has_its_code_and_hint(
    text: str, code: str, hint: str, *, transient: bool
) -> None:
    failure = run_failure("j", f"Job aborted.\nCaused by: {text}\n\tat x.y(Z.java:1)")
    assert (failure.code, failure.transient) == (code, transient)
    assert hint in failure.hint
    assert failure.message == f"job j: {text}"


def test_the_innermost_cause_is_told() -> None:
    text = "outer\nCaused by: a.B: middle\n\tat q\nCaused by: c.D: the real one\n\tat z"
    failure = run_failure("j", text)
    assert (failure.code, failure.message, failure.transient) == (
        "job-failed",
        "job j: c.D: the real one",
        True,
    )


def test_an_error_of_python_code_is_told_by_its_last_line() -> None:
    text = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "x.py", line 3, in f\n'
        "ValueError: three is not liked\n"
        "\n\tat org.apache.spark.Some.thing(Some.scala:1)\n"
    )
    assert run_failure("j", text).message == "job j: ValueError: three is not liked"


def test_a_batch_that_could_not_be_written_is_told_by_its_cause() -> None:
    """Between Spark and us stands Py4J, whose own line says nothing."""
    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: Traceback (most recent call last):\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
        ": org.apache.spark.SparkException: Job aborted\n"
        "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: 2000013 bytes\n"
    )
    failure = run_failure("j", text)
    assert (failure.code, failure.transient) == ("too-large", False)
    assert failure.message.endswith("RecordTooLargeException: 2000013 bytes")


def test_code_that_shall_stop_its_job_is_not_tried_again() -> None:
    text = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "ValueError: three\n\nThe above exception was the direct cause of the following:\n"
        "millrace.engines.spark.map_worker.StoppedByError: ValueError: three\n"
    )
    failure = run_failure("j", text)
    assert (failure.code, failure.transient) == ("stopped-by-error", False)
    assert failure.message == "job j: ValueError: three"
    assert "on_error" in failure.hint


@given(st.text())
def test_any_text_gives_a_short_message(text: str) -> None:
    failure = run_failure("j", text)
    assert failure.message.startswith("job j: ")
    assert len(failure.message) < 420


def test_sql_that_can_not_be_read() -> None:
    error = ParseException("[PARSE_SYNTAX_ERROR] near 'FORM'.\n== SQL ==\n^^^\nJVM stacktrace:\nx")
    failure = analysis_failure("j", error)
    assert failure.code == "bad-sql"
    assert "JVM" not in failure.message
    assert "jobs.j.sql" in failure.hint


def test_a_query_that_spark_does_not_understand() -> None:
    error = AnalysisException("[UNRESOLVED_COLUMN] speeed. Did you mean `speed`?;\n'Project\n+- x")
    failure = analysis_failure("j", error)
    assert failure.code == "bad-query"
    assert failure.message.endswith("Did you mean `speed`?")
    assert "schemas" in failure.hint
    assert analysis_failure("j", PySparkException("odd")).code == "bad-query"


def test_other_errors_are_of_the_users_code() -> None:
    failure = analysis_failure("j", KeyError("speed"))
    assert failure.code == "bad-code"
    assert "KeyError" in failure.message
    own = OperationFailed("mine", "said already")
    assert analysis_failure("j", own) is own


def test_long_messages_are_cut() -> None:
    assert len(analysis_failure("j", AnalysisException("x" * 5000)).message) < 700
