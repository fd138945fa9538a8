"""Jobs with state per key: a class whose objects are kept, or a function over a dict.

Keys are dealt to buckets, and a bucket's records are worked on one after another, in the order of
their positions. Timers go by the time of the partition that a key's last record came from, so a key
whose records are all in one partition sees the same however batches are cut.
"""
