"""For users and for ourselves: feed records to a job, fakes at our own ports, conformance."""

from millrace.testing.jobs import DeadLetter, JobResults, local_spark, run_job

__all__ = ["DeadLetter", "JobResults", "local_spark", "run_job"]
