"""Definitions that follow statements, beside the server's own catalog: the same after every one of them."""

from __future__ import annotations

import random
import re
from typing import Any

import pymysql
import pytest
from tests.integration.mysql_source import source_of

from headwater.event import TableSchema
from headwater.sources.mysql.catalog import definitions
from headwater.sources.mysql.connection import connect
from headwater.sources.mysql.ddl_grammar import parse_ddl
from headwater.sources.mysql.definitions import Definitions, Impossible
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server

TYPES = """
tinyint | tinyint(1) | bool | smallint unsigned | mediumint(5) | int | integer unsigned zerofill | bigint(20) unsigned
decimal | decimal(7) | numeric(12,3) unsigned | dec(65,30) | float | float(20) | float(30) | double precision | real
float(7,3) | bit | bit(9) | date | year | time(3) | datetime | datetime(6) | timestamp(2) null | serial
char | char(7) | varchar(30) | varchar(20) character set latin1 | nchar(4) | national varchar(3) | char(3) binary
varchar(9) collate utf8mb4_bin | varchar(7) character set binary | character varying(8) | char(4) ascii
binary | binary(5) | varbinary(300) | tinytext | text | mediumtext | longtext character set ucs2 | text(70000)
blob | blob(10) | blob(70000) | tinyblob | mediumblob | longblob | long varchar | long varbinary | text charset binary
enum('a','b') | enum('it''s','x,y','ä') character set latin1 | set('one','two','three') | json | geometry | point
"""
WORDS = "not null|null|comment 'hello, ''world'''|default null|invisible"

# How many digits are shown decides nothing.
_ZEROFILL = re.compile(r"(\w+)(?:\(\d+\))?( unsigned)(?: zerofill)?")


def shown(table: TableSchema) -> dict[str, Any]:
    """What the two must agree on."""
    columns = [
        (column.name, _ZEROFILL.sub(r"\1\2", column.type), dict(column.detail), column.generated, str(column.arrow))
        for column in table.columns
    ]
    return {"columns": columns, "key": table.key, "charset": table.detail["charset"]}


def refuse_difference(server: Any, followed: Definitions, database: str, statement: str) -> None:
    now = definitions(server)
    there = {name: shown(table) for name, table in now.tables.items() if name[0].startswith(database)}
    here = {name: shown(table) for name, table in followed.tables.items() if name[0].startswith(database)}
    assert here == there, statement
    assert {k: v for k, v in followed.databases.items() if k.startswith(database)} == {
        k: v for k, v in now.databases.items() if k.startswith(database)
    }, statement


class Follower:
    """Runs a statement on the server and on the definitions, and compares."""

    def __init__(self, server: Any, database: str) -> None:
        self.server, self.database = server, database
        self.followed = definitions(server)
        self.default = str(server.value("select @@character_set_server"))
        server.rows(f"use {database}")
        self.refused: list[str] = []

    def run(self, statement: str, *, may_fail: bool = False) -> None:
        try:
            with self.server.connection.cursor() as cursor:
                cursor.execute(statement)
        except pymysql.Error:
            if may_fail:
                return
            raise
        flavour = self.followed.flavour
        parsed = parse_ddl(statement, 0, flavour.version, mariadb=flavour.mariadb)
        try:
            if parsed is not None:
                self.followed.apply(parsed, self.database, self.default)
        except Impossible:
            # `add f int, modify f bigint`: the server has more to say about it than we.
            self.refused.append(statement)
            self.followed = definitions(self.server)
        refuse_difference(self.server, self.followed, self.database, statement)


STATEMENTS = """
create table t (id int auto_increment primary key, a int, b varchar(10), key (a), unique `u` (b), check (a > 0));
alter table t add column c int first, add d text after a, add (e int, f char(2)), drop b;
alter table t change c `c d` enum('x', 'y') not null after id, modify e bigint unsigned first;
alter table t rename column a to b, rename column d to a;
alter table t change a b char(5), change b a char(6);
alter table t drop primary key, modify id int, add primary key (`c d`, id);
alter table t drop column id;
alter table t drop primary key;
alter table t add constraint pk primary key using btree (e desc, a(3)), algorithm=inplace, lock=none;
alter table t convert to character set latin1;
alter table t default charset=utf8mb4 collate utf8mb4_bin, comment='convert to character set ucs2', engine=InnoDB;
alter table t add column after_default varchar(3), alter column a set default 'x', alter f drop default;
alter table t add index i (a), drop index i, rename index u2 to u3;
alter table t add index u2 (a);
alter table t rename index u2 to u3, add foreign key fk (e) references other (e) on delete set null;
/* before */ alter /* in */ table t -- to the end
 add x1 int # another, drop column a;
create table like_t like t;
create table (like_t2 like t);
create table like_t2 (like t);
rename table t to old, like_t to t, old to like_t;
rename table like_t to other_db.moved;
drop table if exists nothing, like_t2;
create table if not exists t (never int);
create table gen (id int, g int generated always as (id + 1) virtual,
  h int as (id * 2) stored comment 'x', primary key (id));
create table opts (a int) engine=InnoDB default charset=latin1 comment='it''s' row_format=dynamic;
create table opts2 (a varchar(3), b varchar(3) charset utf8mb4) collate latin1_bin;
create table parts (a int, b varchar(3)) partition by range (a) (partition p0 values less than (10));
alter table parts add partition (partition p1 values less than (20));
alter table parts add column c int, add index (b);
alter table parts remove partitioning;
create table comments (a int /*!50100 , b int */ /*!99999 , c int */) /*!50100 partition by hash (a) */;
create table defaults (a int default -5, b varchar(9) default 'x''y',
  c timestamp(3) default current_timestamp(3) on update current_timestamp(3), d bit(3) default b'101',
  e int default (1 + 2), f varchar(3) default _utf8mb4'é');
create table `select` (`a``b` int, `c d` int, primary key (`a``b`));
alter table `select` rename to `group by`;
alter table `group by` rename `t 2`;
create database other_db2 character set latin1;
alter database other_db2 collate utf8mb4_bin;
create table other_db2.t (a varchar(3));
drop database other_db2;
create index i2 on t (a);
drop index i2 on t;
create view v as select 1;
create or replace view v as select 2;
drop view v;
truncate table t;
alter table t force;
alter table t order by a, e;
alter table t disable keys;
drop table `t 2`, gen;
"""


def test_definitions_follow_every_kind_of_statement(mysql: MySqlServer, schema: str) -> None:
    other = f"{schema}_x"
    mysql.execute(f"create database {other}")
    with connect(source_of(mysql, schema).options) as server:
        follower = Follower(server, schema)
        follower.run("create table other (e bigint unsigned primary key)")
        for statement in STATEMENTS.strip().split(";\n"):
            follower.run(statement.replace("other_db", other), may_fail=True)
        assert follower.refused == []
        assert follower.followed.find((other, "moved"))
        assert follower.followed.find((schema, "t 2")) is None
    # Its table refers to one of the other's.
    mysql.execute(f"drop database {other}")


@pytest.mark.parametrize("seed", range(2))
def test_definitions_follow_random_statements(mysql: MySqlServer, schema: str, seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    types = [kind.strip() for line in TYPES.strip().split("\n") for kind in line.split("|")]
    more = ["uuid", "inet6"] if mysql.binaries.mariadb else []

    def column() -> str:
        words = r.sample(WORDS.split("|"), r.randrange(3))
        return f"{r.choice(types + more)} {' '.join(words)}"

    def name() -> str:
        return r.choice("abcdefgh")

    def place() -> str:
        return r.choice(["", "", "first", f"after {name()}"])

    def part() -> str:
        return r.choice(
            [
                f"add column {name()} {column()} {place()}",
                f"drop column {name()}",
                f"modify {name()} {column()} {place()}",
                f"change {name()} {name()} {column()} {place()}",
                f"rename column {name()} to {name()}",
                "drop primary key",
                f"add primary key ({name()})",
                f"add index i{r.randrange(1000)} ({name()}(3))",
                "convert to character set " + r.choice(["latin1", "utf8mb4", "ucs2"]),
                "default character set " + r.choice(["latin1", "utf8mb4"]),
            ]
        )

    def statement() -> str:
        table = r.choice("tuv")
        match r.randrange(10):
            case 0:
                names = r.sample("abcdefgh", 5)
                return f"create table {table} ({', '.join(f'{own} {column()}' for own in names)})"
            case 1:
                return f"rename table {table} to swap, {r.choice('tuv')} to {table}, swap to {r.choice('tuv')}"
            case 2:
                return f"create table {table} like {r.choice('tuv')}"
            case 3:
                return f"drop table {table}" if r.random() < 0.3 else f"alter table {table} rename {r.choice('tuv')}"
        return f"alter table {table} {', '.join(part() for _ in range(r.choice([1, 1, 2, 3])))}"

    with connect(source_of(mysql, schema).options) as server:
        follower = Follower(server, schema)
        follower.run("create table t (a int primary key, b varchar(10), c text, d char(3), e int)")
        for kind in types + more if seed == 0 else []:
            follower.run(f"alter table t add column z {kind}", may_fail=True)
            follower.run("alter table t drop column z", may_fail=True)
        for _ in range(100):
            follower.run(statement(), may_fail=True)
        assert len(follower.refused) < 5, follower.refused
