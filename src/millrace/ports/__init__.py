"""What Millrace needs of brokers, logs and engines: small contracts that plug-ins fulfil.

A port has five methods at most. Its docstring says when a method is called, what returning promises
and what raising promises. Errors are `OperationFailed`, which says whether trying again can help.
"""

from millrace.ports.broker import Broker, BrokerStatus, StreamStatus
from millrace.ports.engine import Engine, Fates, JobOrder, JobState, JobStatus, Progress
from millrace.ports.log import Log, LogOf, Record, Span
from millrace.ports.origin import (
    BATCH_HEADER,
    CAUSE_HEADER,
    ORIGIN_HEADER,
    TIMES_HEADER,
    Origin,
    origin_of,
)
from millrace.ports.store import Change, Conflict, Document, Entry, EntryKind, Store
from millrace.ports.transactions import Row, Transactions, TransactionsOf

__all__ = [
    "BATCH_HEADER",
    "CAUSE_HEADER",
    "ORIGIN_HEADER",
    "TIMES_HEADER",
    "Broker",
    "BrokerStatus",
    "Change",
    "Conflict",
    "Document",
    "Engine",
    "Entry",
    "EntryKind",
    "Fates",
    "JobOrder",
    "JobState",
    "JobStatus",
    "Log",
    "LogOf",
    "Origin",
    "Progress",
    "Record",
    "Row",
    "Span",
    "Store",
    "StreamStatus",
    "Transactions",
    "TransactionsOf",
    "origin_of",
]
