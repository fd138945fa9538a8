"""What was promised, measured: load, the checker of records, latencies, metrics and logs.

Nothing is loaded here: `histogram` and `metrics` need the extra `measure`, the rest does not.
"""
