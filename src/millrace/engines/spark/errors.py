"""What Spark says went wrong, in words that say what to do."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from millrace.errors import OperationFailed

#: Parts of Spark's or Kafka's messages, with a code, what to do, and whether to try again.
_KNOWN: tuple[tuple[str, str, str, bool], ...] = (
    (r"StoppedByError", "stopped-by-error",
     "its code failed at a record and on_error is stop: correct the code, or write on_error: skip",
     False),
    (r"another writer of .* has taken over", "fenced",
     "only one driver may run a job: is this pipeline running twice?", False),
    (r"outside\.feed\.SourceFailed", "source-failed",
     "correct that and start the job again; it goes on where it was", False),
    (r"No space left on device|Disk quota exceeded", "disk-full",
     "make room on the disk that holds the checkpoints; the job goes on by itself then", True),
    (r"TopicAuthorizationExc|TOPIC_AUTHORIZATION_FAILED|GroupAuthorizationExc", "no-rights",
     "ask the broker's owner for read, write and describe rights on the topics of this job", False),
    (r"SaslAuthenticationException", "not-authenticated",
     "check sasl.mechanism, sasl.username and the secret of sasl.password", False),
    (r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PARTITION", "no-stream",
     "the topic is gone: run the pipeline again to create it", True),
    (r"RecordTooLargeException", "too-large",
     "give the output stream a larger max_record", False),
    (r"KAFKA_DATA_LOSS|Some data may have been lost", "data-expired",
     "records were deleted before they were read: raise the stream's retention; to go on without "
     "them set options: {failOnDataLoss: false} on the job", False),
    (r"waiting for the Python worker to connect back", "slow-python",
     "the machine was too busy to start Python within the ten seconds that Spark waits; the job is "
     "tried again", True),
    (r"No resolvable bootstrap|TimeoutException|DisconnectExc|Connection refused", "no-broker",
     "is the broker up and its address right?", True),
    (r"STATE_STORE_\w*(SCHEMA_NOT_COMPATIBLE|VALIDATION_FAILURE)|NOT_MATCH_IN_STATE_METADATA"
     r"|schema for existing state", "state-misfit",
     "the state that is kept does not fit the query: keep its keys, windows and the columns that a "
     "join remembers as they were, or give the job another name to begin anew", False),
    (r"MISSING_METADATA_FILE|metadata file", "checkpoint-broken",
     "the checkpoint is not whole: copy it back, or remove the job's folder to begin anew", False),
    (r"OutOfMemoryError", "out-of-memory",
     "give the driver more memory: sites.SITE.engine.options: {spark.driver.memory: 4g}", True),
)  # fmt: skip
#: Names of Millrace's own errors, which mean nothing to a user.
_OWN = re.compile(r"^millrace\.[\w.]+: ")


def analysis_failure(job: str, error: Exception) -> OperationFailed:
    """Return the failure of a job whose code Spark could not understand."""
    if isinstance(error, OperationFailed):
        return error
    text = _first_lines(str(error))
    if isinstance(error, ParseException):
        return OperationFailed("bad-sql", f"job {job}: its SQL can't be read: {text}",
                               f"correct jobs.{job}.sql; the place is marked above")  # fmt: skip
    if isinstance(error, AnalysisException):
        return OperationFailed("bad-query", f"job {job}: {text}",
                               "check columns and types against the streams' schemas")  # fmt: skip
    if isinstance(error, PySparkException):
        return OperationFailed("bad-query", f"job {job}: {text}")
    kind = type(error).__name__
    return OperationFailed(
        "bad-code", f"job {job}: its code raised {kind}: {text}", "try it with millrace.testing"
    )


def run_failure(job: str, text: str) -> OperationFailed:
    """Return the failure of a job that ran, by what its query said at its end."""
    for pattern, code, hint, transient in _KNOWN:
        if re.search(pattern, text):
            return OperationFailed(code, f"job {job}: {_cause(text)}", hint, transient=transient)
    return OperationFailed("job-failed", f"job {job}: {_cause(text)}", transient=True)


def _first_lines(text: str, most: int = 600) -> str:
    """The message without Spark's plan and stack, which follow in lines of their own."""
    kept = text.split("JVM stacktrace", maxsplit=1)[0]
    kept = re.split(r";\n'|\n\s*at ", kept)[0].strip()
    return kept if len(kept) <= most else kept[:most] + "..."


def _cause(text: str) -> str:
    """The innermost cause that a Java exception tells."""
    causes = re.findall(r"Caused by: (.+)", text)
    if "PythonException" in text or "Traceback" in text:
        lines = [
            line
            for line in text.splitlines()
            if re.match(r"(?!py4j)\w[\w.]*(Error|Exception|Failed)\b", line)
        ]
        causes = lines or causes
    found = causes[-1] if causes else text.strip().splitlines()[0] if text.strip() else "it ended"
    return _OWN.sub("", found.strip())[:400]


def failure_document(failure: OperationFailed) -> dict[str, Any]:
    """Return a failure as it travels."""
    return {
        "code": failure.code,
        "error": failure.message,
        "hint": failure.hint,
        "transient": failure.transient,
    }
