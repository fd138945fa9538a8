"""Kafka: one that Millrace starts as a child process, or one that is already there."""

from millrace.brokers.kafka.broker import AttachedKafka, ManagedKafka
from millrace.brokers.kafka.log import KafkaLog, KeptLogs
from millrace.brokers.kafka.made import MadeTopics
from millrace.brokers.kafka.transactions import KafkaTransactions

__all__ = [
    "AttachedKafka",
    "KafkaLog",
    "KafkaTransactions",
    "KeptLogs",
    "MadeTopics",
    "ManagedKafka",
]
