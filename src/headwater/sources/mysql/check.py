"""Everything that can be wrong with a MySQL or MariaDB source before it starts, each with the SQL that mends it.

Only looks; changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import HeadwaterError, Usage
from headwater.event import TableSchema
from headwater.sources.base import Finding, Severity
from headwater.sources.mysql.catalog import describe
from headwater.sources.mysql.connection import Server, address, connect, replica_id
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.state import binlog_files, has_gtids, names_columns, replicas, retention_seconds

_OK, _WARNING, _ERROR = Severity.OK, Severity.WARNING, Severity.ERROR
_KEEP = "-- and in the server's configuration file; sessions that are open keep their own setting"
# Less than this, and a pipeline that stands still over a weekend has to load its tables anew.
SHORT_RETENTION_HOURS = 24.0


def check(options: MySqlOptions, captured: Callable[[str, str], bool]) -> list[Finding]:
    """See `Source.check`."""
    try:
        with connect(options) as server:
            tables = describe(server, captured, options.cast)
            findings = [Finding("server", _OK, f"{server.version} at {address(options)}"), *settings(server)]
            findings += _privileges(server, tables)
            # Without a log, or without the right to look, there is nothing more to see.
            if any(finding.severity == _ERROR and finding.subject in ("log_bin", "privileges") for finding in findings):
                return findings
            return [*findings, *_server_id(server, options), *_retention(server), *_tables(tables)]
    except HeadwaterError as error:
        return [Finding("server", _ERROR, error.what, "; ".join((error.cause, *error.remedies)).strip("; "))]


def refuse_settings(server: Server) -> None:
    """Raise what `check` would call an error, before anything starts."""
    for finding in settings(server):
        if finding.severity == _ERROR:
            raise Usage(f"{server.address}: {finding.text}", finding.remedy)


def settings(server: Server) -> list[Finding]:
    """What the server must be told for its log to hold whole rows."""
    if server.variable("log_bin").upper() != "ON":
        text = "log_bin is off: the server writes no log"
        return [Finding("log_bin", _ERROR, text, "Set log_bin in the server's configuration file, then restart it")]
    found = [Finding("log_bin", _OK, "on")]
    for name, wanted, why in (
        ("binlog_format", "ROW", "changes are logged as statements, which say nothing about rows"),
        ("binlog_row_image", "FULL", "rows are logged without the columns that did not change"),
    ):
        value = server.variable(name).upper()
        if name == "binlog_format" and not value:
            continue
        if value == wanted:
            found.append(Finding(name, _OK, wanted))
        elif not value:
            text = f"this server has no {name}: it is too old"
            found.append(Finding(name, _ERROR, text, "Upgrade it to MySQL 8.0 or MariaDB 10.5"))
        else:
            remedy = f"set global {name} = '{wanted}';   {_KEEP}"
            found.append(Finding(name, _ERROR, f"{name} is {value}: {why}", remedy))
    found.append(_metadata(server))
    partial = server.variable("binlog_row_value_options")
    if partial:
        remedy = f"set global binlog_row_value_options = '';   {_KEEP}"
        found.append(Finding("binlog_row_value_options", _ERROR, f"{partial}: JSON values are logged in parts", remedy))
    if not has_gtids(server):
        text = (
            "gtid_mode is off: positions are files and offsets, which mean nothing on another server after a failover"
        )
        found.append(Finding("gtid_mode", _WARNING, text, "Turn GTIDs on: see gtid_mode in the server's manual"))
    return found


def _metadata(server: Server) -> Finding:
    name = "binlog_row_metadata"
    if names_columns(server):
        return Finding(name, _OK, "FULL")
    value = server.variable(name)
    if not value:
        text = f"this server has no {name}: it is too old"
        return Finding(name, _ERROR, text, "Upgrade it to MySQL 8.0 or MariaDB 10.5")
    text = f"{value}: the log does not name columns; definitions are followed statement by statement instead"
    return Finding(name, _WARNING, text, f"set global {name} = 'FULL';   -- and in the server's configuration file")


def _privileges(server: Server, tables: list[TableSchema]) -> list[Finding]:
    account = server.value("select current_user()")
    user, _, host = str(account).rpartition("@")
    shown = f"'{user}'@'{host}'"
    granted = " ".join(str(row[0]).upper() for row in server.rows("show grants"))
    everything = "ALL PRIVILEGES ON *.*" in granted
    found = []
    for words, needed_for in (
        (("REPLICATION SLAVE", "REPLICATION REPLICA"), "replication slave"),
        (("REPLICATION CLIENT", "BINLOG MONITOR"), "replication client"),
    ):
        if not everything and not any(word in granted for word in words):
            remedy = f"grant {needed_for} on *.* to {shown};"
            found.append(Finding("privileges", _ERROR, f"{account} lacks {needed_for.upper()}", remedy))
    if server.mariadb and not everything and "REPLICATION MASTER ADMIN" not in granted and "SUPER" not in granted:
        # SHOW SLAVE HOSTS, which tells whether our id is free.
        remedy = f"grant replication master admin on *.* to {shown};"
        found.append(Finding("privileges", _ERROR, f"{account} lacks REPLICATION MASTER ADMIN", remedy))
    if not tables:
        text = "no table matches, or the account may not see it"
        found.append(Finding("tables", _ERROR, text, f"grant select on … to {shown};   -- or look at source.tables"))
    return found or [Finding("privileges", _OK, f"{account} may read the log")]


def _server_id(server: Server, options: MySqlOptions) -> list[Finding]:
    own = replica_id(options)
    try:
        taken = [row for row in replicas(server) if int(row["server_id"]) == own]
    except HeadwaterError as error:
        return [Finding("server_id", _ERROR, error.what, "; ".join(error.remedies))]
    # A reader of ours says its client's name when it registers.
    if any(row.get("host") != options.client[:60] for row in taken):
        text = f"{own} is in use by another replica"
        return [Finding("server_id", _WARNING, text, "choose another: source.server_id")]
    return [Finding("server_id", _OK, f"{own}, and this pipeline reads with it" if taken else str(own))]


def _retention(server: Server) -> list[Finding]:
    files = binlog_files(server)
    size = sum(int(row["file_size"]) for row in files)
    seconds = retention_seconds(server)
    text = f"{len(files)} binlog files, {size >> 20} MB on disk"
    cap = int(server.variable("max_binlog_total_size") or 0)
    if cap:
        text += f" (never more than {cap >> 20} MB)"
    if not seconds:
        remedy = "set global binlog_expire_logs_seconds = 604800;"
        return [Finding("retention", _WARNING, f"{text}, kept for ever: they can fill the server's disk", remedy)]
    text += f", kept for {seconds / 3600:.0f} h"
    if seconds < SHORT_RETENTION_HOURS * 3600:
        remedy = "set global binlog_expire_logs_seconds = 604800;"
        return [Finding("retention", _WARNING, f"{text}: a pipeline down for longer must start anew", remedy)]
    return [Finding("retention", _OK, text)]


def _tables(tables: list[TableSchema]) -> list[Finding]:
    found = []
    for table in tables:
        if not table.key:
            text = f"{table.table} has no primary key: it cannot be kept up to date, only appended"
            found.append(Finding("tables", _WARNING, text, "alter table … add primary key (…);"))
    if tables:
        found.append(Finding("tables", _OK, f"{len(tables)} captured"))
    return found
