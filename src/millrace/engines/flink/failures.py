"""What Flink says when something fails, in words that tell people what to do."""

from __future__ import annotations

import re
from typing import Final

from millrace.engines.flink.calls import Refused
from millrace.engines.flink.program import Program
from millrace.errors import OperationFailed

#: An error's class and message at the beginning of a line of a stack trace.
_CAUSE: Final = re.compile(r"^\s*(?:Caused by:\s*)?((?:[\w$]+\.)+[\w$]+)(?::\s*(.*))?$")
_MOST: Final = 400
#: Errors of Flink's own that only wrap what went wrong.
_WRAPS: Final = (
    "java.util.concurrent.CompletionException",
    "java.util.concurrent.ExecutionException",
    "org.apache.flink.runtime.JobException",
    "org.apache.flink.runtime.rest.handler.RestHandlerException",
    "org.apache.flink.util.FlinkRuntimeException",
    "org.apache.flink.util.SerializedThrowable",
)


def cause_of(trace: str) -> str:
    """Return the deepest cause of a stack trace: its class, without the package, and its message.

    Where the deepest says nothing, the one above it is told.
    """
    found: list[tuple[str, str]] = []
    for line in trace.splitlines():
        if (line.startswith("Caused by:") or not found) and (match := _CAUSE.match(line)):
            found.append((match[1], _plain(match[2] or "")))
    told = [it for it in found if it[0] not in _WRAPS or it[1]]
    for name, message in reversed(told):
        if message:
            return f"{name.rpartition('.')[2]}: {message}"[:_MOST]
    if told:
        return told[-1][0].rpartition(".")[2]
    return next((line.strip()[:_MOST] for line in trace.splitlines() if line.strip()), "")


def _plain(message: str) -> str:
    """A message without the names of the errors around it, which Java puts before it."""
    parts = re.split(r"(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable):\s*", message)
    return parts[-1].strip()


def jar_gone(refused: Refused) -> bool:
    """Whether the server says that it has no such jar, as after a restart."""
    return refused.status == 404 or ("does not exist" in refused.said and ".jar" in refused.said)


def duplicate(failure: OperationFailed) -> bool:
    """Whether the server refuses a job because it has one of its id."""
    return isinstance(failure, Refused) and "DuplicateJobSubmission" in failure.said


def refused_run(refused: Refused, program: Program, begin: str) -> OperationFailed:
    """Return why a program was not run, for people."""
    said, cause = refused.said, cause_of(_after_server_side(refused.said))
    if duplicate(refused):
        return refused
    if refused.status == 404:
        return OperationFailed(
            "no-submission",
            f"Flink takes no jars: {cause}",
            "its setting web.submit.enable must be true",
        )
    if "entry point class" in said or ("ClassNotFoundException" in said and program.entry in cause):
        return OperationFailed(
            "no-such-class",
            f"Flink finds no class {program.entry} in {program.jar.name}: {cause}",
            "look at `jar.entry`",
        )
    if begin and ("savepoint" in cause.lower() or "checkpoint" in cause.lower()):
        return OperationFailed(
            "state-refused",
            f"{program.entry} can't go on from {begin}: {cause}",
            "does the program still have the state that is in there? To leave out what it has no "
            "more: the job's option execution.state-recovery.ignore-unclaimed-state: true",
        )
    if "main method caused an error" in said or "ProgramInvocationException" in said:
        return OperationFailed(
            "program-failed",
            f"{program.entry} failed before it ran: {cause}",
            "look at `jar.arguments`, and at what its main does",
        )
    return OperationFailed(
        "not-run", f"Flink does not run {program.entry}: {cause}", transient=refused.transient
    )


def _after_server_side(said: str) -> str:
    """The part of Flink's answer that is a stack trace."""
    return said.partition("Exception on server side:")[2].strip() or said
