"""The planner: desired and observed state in, the steps between them out. No clock, no I/O."""

from millrace.plan.planner import plan

__all__ = ["plan"]
