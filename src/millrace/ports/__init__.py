"""What Millrace needs of brokers, logs and engines: small contracts that plug-ins fulfil.

A port has five methods at most. Its docstring says when a method is called, what returning promises
and what raising promises. Errors are `OperationFailed`, which says whether trying again can help.
"""

from millrace.ports.broker import (
    Broker,
    BrokerOrder,
    BrokerPlugin,
    BrokerStatus,
    Reception,
    StreamStatus,
    counts_file,
    receiver_name,
)
from millrace.ports.engine import (
    Engine,
    EngineOrder,
    EnginePlugin,
    Fates,
    JobOrder,
    JobState,
    JobStatus,
    Progress,
)
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
    "BrokerOrder",
    "BrokerPlugin",
    "BrokerStatus",
    "Change",
    "Conflict",
    "Document",
    "Engine",
    "EngineOrder",
    "EnginePlugin",
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
    "Reception",
    "Record",
    "Row",
    "Span",
    "Store",
    "StreamStatus",
    "Transactions",
    "TransactionsOf",
    "origin_of",
    "counts_file",
    "receiver_name",
]
