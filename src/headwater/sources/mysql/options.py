"""Options of the MySQL and MariaDB source, with Debezium's names as aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headwater.options import Secret, option
from headwater.sources.base import SourceOptions


@dataclass(frozen=True)
class MySqlOptions(SourceOptions):
    """What a user may say about a MySQL or MariaDB source."""

    url: Secret = option(Secret(""), help="mysql://user@host:port; or host, port, user, password")
    host: str = option("", help="server name or address", aliases=["database.hostname"])
    port: int = option(0, help="server port; 3306 when nothing says otherwise", aliases=["database.port"])
    user: str = option(
        "", help="account with REPLICATION SLAVE, REPLICATION CLIENT and SELECT", aliases=["database.user"]
    )
    password: Secret = option(Secret(""), help="prefer ${ENV} or ${file:…}", aliases=["database.password"])
    ssl_mode: str = option(
        "preferred",
        help="TLS, in the mysql client's words",
        aliases=["database.ssl.mode"],
        choices=["disabled", "preferred", "required", "verify_ca", "verify_identity"],
    )
    ssl_ca: str = option("", help="file with the authorities to trust")
    ssl_cert: str = option("", help="client certificate file")
    ssl_key: str = option("", help="client key file")
    client: str = option("headwater_{name}", help="what the server calls us in SHOW REPLICAS")
    server_id: int = option(
        0,
        help="our id as a replica, unlike that of every other replica; 0: made from `client`",
        aliases=["database.server.id"],
    )
    table_include_list: list[str] = option(
        [], help="Debezium's form of `tables`: anchored regular expressions", aliases=["table.include.list"]
    )
    table_exclude_list: list[str] = option(
        [], help="Debezium's form of `exclude`: anchored regular expressions", aliases=["table.exclude.list"]
    )
    database_include_list: list[str] = option(
        [], help="databases to capture, as anchored regular expressions", aliases=["database.include.list"]
    )
    database_exclude_list: list[str] = option(
        [], help="databases to leave out, as anchored regular expressions", aliases=["database.exclude.list"]
    )
    cast: dict[str, str] = option(
        {}, help="database.table.column: string — keep the server's text for a column our types cannot hold"
    )
    include_schema_changes: bool = option(
        False,
        help="also give Debezium's events for changes of definitions, in the formats that have them",
        aliases=["include.schema.changes"],
    )
    skip_unparseable_ddl: bool = option(
        False,
        help="without binlog_row_metadata=FULL: pass over statements that change definitions and are not understood",
        aliases=["schema.history.internal.skip.unparseable.ddl"],
    )
    heartbeat_seconds: float = option(2.0, help="how often a silent server must say that it is there")
    renamed: ClassVar[Mapping[str, str]] = {
        "database.whitelist": "database.include.list",
        "database.blacklist": "database.exclude.list",
    }
    no_effect: ClassVar[Mapping[str, str]] = {
        r"schema\.history\..*": "table definitions are kept in the journal",
        r"database\.server\.id\.offset": "a snapshot needs no replica ids",
        r"connect\.(timeout\.ms|keep\.alive.*)": "connecting is retried, and silence is noticed",
        r"binlog\.(buffer\.size|net\..*)": "transactions of any size go through the journal",
        r"gtid\.new\.channel\.position|internal\..*": "a set of GTIDs is always kept whole",
        r"database\.(jdbc\.driver|protocol)|ddl\.parser\.type|use\.nongraceful\.disconnect": "no JDBC here",
        r"min\.row\.count\.to\.stream\.results": "every result is streamed",
        r"snapshot\.locking\.mode": "a consistent snapshot is taken without a lock, or with one of milliseconds",
    }
