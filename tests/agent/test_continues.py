"""What must have been read of a stream before it goes inside a query."""

from __future__ import annotations

import pytest

from millrace.agent.continues import refuse_unread
from millrace.errors import OperationFailed
from millrace.ports import Span


def test_what_expired_was_not_left_unread_by_anybody() -> None:
    refuse_unread("mid", "b", {}, {0: Span(8, 8)})
    with pytest.raises(OperationFailed, match="2 records of mid are not read yet by b"):
        refuse_unread("mid", "b", {}, {0: Span(6, 8)})


def test_every_partition_counts_from_where_it_was_read() -> None:
    refuse_unread("mid", "b", {0: 8, 1: 3}, {0: Span(0, 8), 1: Span(0, 3)})
    with pytest.raises(OperationFailed, match="3 records"):
        refuse_unread("mid", "b", {0: 8, 1: 2}, {0: Span(0, 10), 1: Span(1, 3)})
