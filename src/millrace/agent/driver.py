"""The program of a driver: Spark, with a site's brokers at hand."""

from __future__ import annotations

from millrace.brokers.kafka import KafkaTransactions, KeptLogs
from millrace.engines.spark.host import serve

if __name__ == "__main__":
    serve(KafkaTransactions, KeptLogs())
