"""For users and for ourselves: feed records to a job, fakes at our own ports, conformance."""

from millrace.testing.jobs import DeadLetter, Given, JobResults, local_spark, run_job

__all__ = ["DeadLetter", "Given", "JobResults", "local_spark", "run_job"]
