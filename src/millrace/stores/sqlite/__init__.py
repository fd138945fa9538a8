"""A store in one file of SQLite."""

from millrace.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
