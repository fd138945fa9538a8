"""The names of the parts, for who chooses among benchmarks."""

NAMES = ("mqtt", "flink")
