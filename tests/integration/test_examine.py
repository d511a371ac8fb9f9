"""What `headwater doctor` finds on a server beyond `check`, each with the statement that mends it."""

from __future__ import annotations

import pytest
from tests.conftest import Database
from tests.integration.postgres_source import make_source, open_log

from headwater.sources.base import Finding, Severity
from headwater.sources.postgres.examine import examine
from headwater.testing import wait_until

pytestmark = pytest.mark.server


def by_subject(findings: list[Finding], *severities: Severity) -> dict[str, Finding]:
    return {each.subject: each for each in findings if each.severity in severities}


def test_tables_that_the_log_or_a_sink_cannot_follow_are_named(database: Database):
    database.execute("create unlogged table u (id int primary key); create table keyless (v text)")
    database.execute("create table fine (id int primary key); alter table keyless replica identity full")

    found = by_subject(make_source(database).examine(running=False), Severity.WARNING)

    assert found["public.u"].remedy.startswith('alter table "public"."u" set logged;')
    assert "no primary key" in found["public.keyless"].text
    assert "public.fine" not in found
    assert "idle_in_transaction_session_timeout" in found["timeouts"].remedy
    assert "max_slot_wal_keep_size" in found["wal"].remedy


def test_a_forgotten_transaction_is_named_by_pid_and_the_remedy_ends_it(database: Database):
    database.execute("create table t (id int primary key)")
    forgotten = database.connect()
    forgotten.execute("begin; insert into t values (1)")

    def transactions() -> list[Finding]:
        found = examine(make_source(database).options, lambda _schema, _name: True, running=False, long_seconds=0)
        return [each for each in found if each.subject == "transactions"]

    (finding,) = transactions()
    assert f"PID {forgotten.info.backend_pid} of postgres" in finding.text
    assert "idle in transaction" in finding.text
    assert "insert" not in finding.text
    database.execute(finding.remedy)
    wait_until(lambda: not transactions(), 10, "the transaction is gone")
    forgotten.close()


def test_slots_without_a_reader_are_found_and_our_own_only_while_we_should_read(database: Database):
    database.execute("create table t (id int primary key)")
    database.execute(f"select pg_create_logical_replication_slot('{database.name}_other', 'pgoutput')")
    source = make_source(database)
    with open_log(source):
        reading = by_subject(source.examine(running=True), Severity.WARNING, Severity.ERROR)
        assert f'slot "{database.name}"' not in reading
        assert "headwater slots drop" in reading[f'slot "{database.name}_other"'].remedy
        assert f'slot "{database.name}"' in by_subject(source.examine(running=False), Severity.WARNING)
    wait_until(
        lambda: (
            "nobody reads" in by_subject(source.examine(running=True), Severity.ERROR)[f'slot "{database.name}"'].text
        ),
        10,
        "our own slot without a reader",
    )


def test_a_published_table_less_is_found_while_the_pipeline_runs(database: Database):
    database.execute("create table a (id int primary key)")
    source = make_source(database)
    source.prepare(None)
    source.close()
    database.execute("create table b (id int primary key)")

    found = by_subject(source.examine(running=True), Severity.WARNING)

    assert "public.b" in found['publication "pub"'].text
