"""Makes mariadb.packets, what a real server sends a replica: `python -m tests.golden.mysql.record`."""

from __future__ import annotations

import time
from pathlib import Path

from headwater.options import Secret
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.log import start_dump
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.packets import Packets
from headwater.sources.mysql.position import parse_mariadb
from headwater.testing.mysql import MySqlServer

STATEMENTS = [
    "create database shop character set utf8mb4",
    "create table shop.orders (id int primary key, customer varchar(300), amount decimal(12,3), placed datetime(3),"
    " state enum('new','paid'), tags set('a','b'), note text, flag bit(3), small tinyint unsigned, picture longblob)",
    "create table shop.other (a bigint)",
    "insert into shop.orders values (1, 'Ärger', 12.5, '2024-01-02 03:04:05.678', 'new', 'a,b', 'x', 5, 255, x'00ff'),"
    " (2, null, null, null, null, null, null, null, null, null)",
    "begin",
    "update shop.orders set state = 'paid', amount = -0.001 where id < 3",
    "insert into shop.other values (1), (2), (3)",
    "delete from shop.orders where id = 2",
    "commit",
    "begin",
    "insert into shop.other values (4)",
    "rollback",
    "set session log_bin_compress = 1",
    "insert into shop.orders (id, note) values (10, repeat('long', 300))",
    "truncate table shop.orders",
    "alter table shop.orders drop column note",
    "insert into shop.orders (id, customer) values (3, 'after')",
    "flush binary logs",
    "insert into shop.orders (id, customer) values (4, 'next file')",
]


def main() -> None:
    with MySqlServer(settings={"log-bin-compress": "ON", "log-bin-compress-min-len": "100"}) as server:
        server.execute(*(text for text in STATEMENTS if not text.startswith("set session")))
        session = Server(MySqlOptions(url=Secret(server.url()), client="record"))
        start_dump(session, session.options, parse_mariadb(""))
        packets, data, deadline = Packets(session.connection), b"", time.monotonic() + 1.5
        while time.monotonic() < deadline:
            packets.receive(0.2)
            data += packets.data[packets.at : packets.end].tobytes()
            packets.at = packets.end
    Path(__file__).with_name("mariadb.packets").write_bytes(data)
    print(len(data), "bytes")


if __name__ == "__main__":
    main()
