"""What enters and leaves beside brokers: files, recordings, databases, clocks, programs, hooks.

What is outside is given the name of a stream that no broker has (`bridge`), so jobs over it are
queries like all others. A feed knows how to read one kind of source by positions that can be read
again; `source` shows any feed to Spark.
"""
