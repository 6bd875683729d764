"""The embedded store and queue: SQLite files that several processes may share."""

from xmcloud.adapters.sqlite.queue import SqliteQueue
from xmcloud.adapters.sqlite.store import SqliteStore

__all__ = ["SqliteQueue", "SqliteStore"]
