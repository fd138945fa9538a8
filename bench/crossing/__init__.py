"""Other engines and brokers than Spark and Kafka, against the same work done without Millrace."""
