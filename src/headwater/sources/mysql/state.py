"""Where a server is, and how far back its log goes. Knows SQL and nothing of streaming."""

from __future__ import annotations

from typing import Any

from headwater.errors import Stop, Usage
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.position import (
    FileProgress,
    MariaDbProgress,
    MySqlProgress,
    Progress,
    file_number,
    parse_mariadb,
    parse_mysql,
)

_ANEW = "To load the tables anew: remove the state folder and the tables in the lake, and run again"


def written(server: Server) -> Progress:
    """How far the server's log has been written, in the way this server counts."""
    if server.mariadb:
        return parse_mariadb(str(server.value("select @@global.gtid_binlog_pos") or ""))
    if has_gtids(server):
        return parse_mysql(str(server.value("select @@global.gtid_executed") or ""))
    return written_file(server)


def has_gtids(server: Server) -> bool:
    """MariaDB always has them; MySQL when it is told to."""
    return server.mariadb or server.variable("gtid_mode").upper() == "ON"


def names_columns(server: Server) -> bool:
    """Whether the log says of every row how its columns are called."""
    return server.variable("binlog_row_metadata").upper() == "FULL"


def written_file(server: Server) -> FileProgress:
    """The file being written and how far."""
    status = "show binary log status" if not server.mariadb and server.number >= (8, 2) else "show master status"
    rows = server.dicts(status)
    if not rows:
        raise Usage(
            f"{server.address} writes no binlog",
            "Set log_bin in the server's configuration file, then restart the server",
        )
    return FileProgress(str(rows[0]["file"]), int(rows[0]["position"]))


def binlog_files(server: Server) -> list[dict[str, Any]]:
    """`log_name` and `file_size` of every file that is still there, oldest first."""
    return server.dicts("show binary logs")


def unread_bytes(server: Server, file: str, offset: int) -> int:
    """How much of the log lies behind a place of it."""
    files = [(str(row["log_name"]), int(row["file_size"])) for row in binlog_files(server)]
    return max(0, sum(size for name, size in files if file_number(name) >= file_number(file)) - offset)


def retention_seconds(server: Server) -> float:
    """For how long the server keeps its log; 0 = for ever."""
    seconds = float(server.variable("binlog_expire_logs_seconds") or 0)
    return seconds or float(server.variable("expire_logs_days") or 0) * 86_400


def refuse_unreachable(server: Server, wanted: Progress) -> None:
    """Stop when this server's log cannot be read on from `wanted`: purged, reset, restored, or another server's."""
    now = written(server)
    if type(now) is not type(wanted):
        raise Stop(
            f"the stored position {wanted.text()} does not fit this server, which counts as in {now.text()[:60]}",
            _ANEW,
            cause="It is another kind of server, or its gtid_mode was changed",
        )
    if not now.covers(wanted):
        raise Stop(
            f"the server is behind the stored position: it has {now.text()}, we have read {wanted.text()}",
            _ANEW,
            cause="Its log was reset (RESET MASTER), it was restored from a backup, or it is not a replica of the"
            " server we read before",
        )
    if not reaches_back(server, wanted):
        raise Stop(
            f"the server no longer has what comes after {wanted.text()}: those binlog files were purged",
            _ANEW,
            "Keep them longer: binlog_expire_logs_seconds (expire_logs_days on older servers)",
        )


def reaches_back(server: Server, wanted: Progress) -> bool:
    """Whether the log still has everything behind `wanted`."""
    match wanted:
        case MariaDbProgress():
            first = str(binlog_files(server)[0]["log_name"])
            oldest = server.value("select binlog_gtid_pos(%s, 4)", [first])
            return oldest is None or wanted.covers(parse_mariadb(str(oldest)))
        case MySqlProgress():
            return wanted.covers(parse_mysql(str(server.value("select @@global.gtid_purged") or "")))
        case FileProgress():
            names = {str(row["log_name"]) for row in binlog_files(server)}
            return wanted.file in names or file_number(wanted.file) in {file_number(name) for name in names}
    return False


def replicas(server: Server) -> list[dict[str, Any]]:
    """Who reads this server's log."""
    new = not server.mariadb and server.number >= (8, 0)
    return server.dicts("show replicas" if new else "show slave hosts")
