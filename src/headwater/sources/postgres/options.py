"""Options of the PostgreSQL source, with Debezium's names as aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headwater.options import Secret, option
from headwater.sources.base import SourceOptions


@dataclass(frozen=True)
class PostgresOptions(SourceOptions):
    """What a user may say about a PostgreSQL source."""

    url: Secret = option(
        Secret(""), help="postgresql://user@host:port/database; or host, port, user, password, database"
    )
    host: str = option("", help="server name or address", aliases=["database.hostname"])
    port: int = option(0, help="server port; 5432 when nothing says otherwise", aliases=["database.port"])
    user: str = option("", help="role with REPLICATION and SELECT", aliases=["database.user"])
    password: Secret = option(
        Secret(""), help="prefer ${ENV}, ${file:…} or a .pgpass file", aliases=["database.password"]
    )
    database: str = option("", help="database name", aliases=["database.dbname"])
    sslmode: str = option(
        "",
        help="TLS, in libpq's words",
        aliases=["database.sslmode"],
        choices=["", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
    )
    sslrootcert: str = option("", help="file with the authorities to trust", aliases=["database.sslrootcert"])
    sslcert: str = option("", help="client certificate file", aliases=["database.sslcert"])
    sslkey: str = option("", help="client key file", aliases=["database.sslkey"])
    table_include_list: list[str] = option(
        [], help="Debezium's form of `tables`: anchored regular expressions", aliases=["table.include.list"]
    )
    table_exclude_list: list[str] = option(
        [], help="Debezium's form of `exclude`: anchored regular expressions", aliases=["table.exclude.list"]
    )
    schema_include_list: list[str] = option(
        [], help="schemas to capture, as anchored regular expressions", aliases=["schema.include.list"]
    )
    schema_exclude_list: list[str] = option(
        [], help="schemas to leave out, as anchored regular expressions", aliases=["schema.exclude.list"]
    )
    message_prefix_include_list: list[str] = option(
        [],
        help="logical messages to capture by prefix, as anchored regular expressions; default: all",
        aliases=["message.prefix.include.list"],
    )
    message_prefix_exclude_list: list[str] = option(
        [],
        help="logical messages to leave out by prefix, as anchored regular expressions",
        aliases=["message.prefix.exclude.list"],
    )
    slot: str = option("headwater_{name}", help="replication slot, created when missing", aliases=["slot.name"])
    publication: str = option(
        "headwater_{name}",
        help="publication, created when missing and permitted",
        aliases=["publication.name"],
    )
    publication_autocreate: str = option(
        "filtered",
        help="filtered: create it for the captured tables and add new ones; disabled: never touch it",
        aliases=["publication.autocreate.mode"],
        choices=["filtered", "all_tables", "disabled"],
    )
    publish_via_partition_root: bool = option(
        False, help="events of partitions under their root table", aliases=["publish.via.partition.root"]
    )
    plugin: str = option(
        "pgoutput", help="logical decoding plug-in; only pgoutput", aliases=["plugin.name"], choices=["pgoutput"]
    )
    cast: dict[str, str] = option(
        {}, help="schema.table.column: string — keep the server's text for a column our types cannot hold"
    )
    status_interval_ms: int = option(
        10_000, help="how often the server hears from us at least", aliases=["status.update.interval.ms"]
    )
    slot_failover: bool = option(
        False, help="let standbys carry the slot on (PostgreSQL 17 and newer)", aliases=["slot.failover"]
    )
    lsn_flush_mode: str = option(
        "connector",
        help="connector: confirm what every sink holds; connector_and_driver: and what an idle server announces;"
        " manual: never confirm",
        aliases=["lsn.flush.mode"],
        choices=["connector", "connector_and_driver", "manual"],
    )
    offset_mismatch_strategy: str = option(
        "fail",
        help="when slot and stored position disagree. fail: stop before anything is skipped",
        aliases=["offset.mismatch.strategy"],
        choices=["fail", "no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"],
    )
    wal_escrow: bool = option(
        False,
        help="confirm what is in the journal on disk: a sink that is down does not hold WAL back",
        aliases=["wal.escrow"],
    )
    renamed: ClassVar[Mapping[str, str]] = {
        "schema.whitelist": "schema.include.list",
        "schema.blacklist": "schema.exclude.list",
        "flush.lsn.source": "lsn.flush.mode",
        "internal.slot.seek.to.known.offset.on.start": "offset.mismatch.strategy",
    }
    old_values: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "flush.lsn.source": {"true": "connector", "false": "manual"},
        "internal.slot.seek.to.known.offset.on.start": {"true": "trust_offset", "false": "no_validation"},
    }
    no_effect: ClassVar[Mapping[str, str]] = {
        r"lsn\.flush\.timeout\..*": "confirming waits for nothing",
        r"slot\.(max\.retries|retry\.delay\.ms)": "connecting is retried",
        r"xmin\.fetch\.interval\.ms": "source.xmin is null",
        r"schema\.refresh\.mode|internal\..*": "schemas come with the log",
        r"database\.server\.id": "PostgreSQL has no server ids",
    }
