"""What `millrace run` makes of its jobs at its end."""

from __future__ import annotations

import pytest

from millrace.cli.run import failed
from millrace.ports import JobState, JobStatus


@pytest.mark.parametrize(
    ("status", "again", "expected"),
    [
        (JobStatus(JobState.RUNNING), False, False),
        (JobStatus(JobState.RUNNING), True, False),
        (JobStatus(JobState.STARTING), False, False),
        (JobStatus(JobState.STARTING), True, True),
        (JobStatus(JobState.FAILED, error="no broker"), True, True),
        (JobStatus(JobState.FAILED, error="bad code", transient=False), False, True),
        (JobStatus(JobState.ENDED), False, False),
        (JobStatus(JobState.STOPPED), True, False),
    ],
)
def test_who_is_not_up_at_the_end_has_failed(
    status: JobStatus, again: bool, expected: bool
) -> None:
    assert failed(status, again=again) is expected
