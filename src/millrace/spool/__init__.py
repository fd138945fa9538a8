"""A durable spool: what came from a transport that can't replay, in files that can be read again.

One process writes (`SpoolWriter`), any number of others read (`SpoolReader`). The folder holds

    lock                           held by the writer
    mark                           which positions readers may see; written after the sync
    00000000000000000000.segment   records from that position on, each with its checksum
    00000000000000000000.index     where some of them stand; only a hint, never synced

Records have positions 0, 1, 2 ... which never change and are never given twice.
"""

from millrace.spool.reader import SpoolReader
from millrace.spool.writer import SpoolWriter

__all__ = ["SpoolReader", "SpoolWriter"]
