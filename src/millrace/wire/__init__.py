"""The model as JSON: the one place that knows its shape outside the process."""

from millrace.wire.documents import (
    diagnostic_document,
    pipeline_document,
    plan_document,
    plan_of,
    step_document,
)
from millrace.wire.link import goal_document, goal_of, report_document, report_of

__all__ = [
    "diagnostic_document",
    "goal_document",
    "goal_of",
    "pipeline_document",
    "plan_document",
    "plan_of",
    "report_document",
    "report_of",
    "step_document",
]
