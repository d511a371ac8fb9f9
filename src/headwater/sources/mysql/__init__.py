"""MySQL and MariaDB: the row-based binlog, read as a replica does."""

from headwater.sources.mysql.source import MySql

__all__ = ["MySql"]
