"""PostgreSQL: logical decoding through a replication slot and the pgoutput plug-in."""

from headwater.sources.postgres.source import Postgres

__all__ = ["Postgres"]
