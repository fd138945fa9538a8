"""Windows whose results depend on the records alone, not on where batches end.

A record is late when it is older than the greatest time of the earlier positions of its own
partition, less the lateness. So a first operator looks at each partition by itself, in the order of
positions (`marking`), and gives partial aggregates of what is on time. A second puts them together
and closes a window when no partition can add to it any more (`closing`).
"""
