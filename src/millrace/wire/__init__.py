"""The model as JSON: the one place that knows its shape outside the process."""

from millrace.wire.documents import (
    diagnostic_document,
    pipeline_document,
    plan_document,
    plan_of,
    step_document,
)

__all__ = ["diagnostic_document", "pipeline_document", "plan_document", "plan_of", "step_document"]
