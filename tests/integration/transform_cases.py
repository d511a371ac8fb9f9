"""What real Debezium was asked about its transforms: SQL files of tests/golden/debezium under transform settings.

`python -m tests.integration.transform_cases [CASE …]` records them anew; needs the `oracle` extra and Java.
"""

from __future__ import annotations

import sys

from tests.oracle.cases import Case

from headwater.testing.postgres import PostgresServer

_ROUTER = {"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"}
_UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
_LOGICAL = {"transforms": "shards", "transforms.shards.type": "io.debezium.transforms.ByLogicalTableRouter"}
# Only the outbox table's own events go through the router.
_ONLY_OUTBOX = {
    "transforms.outbox.predicate": "isOutbox",
    "predicates": "isOutbox",
    "predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.isOutbox.pattern": r".*\.outbox",
}
_ONLY_WHOLE = {
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    "transforms.unwrap.predicate": "isWhole",
    "predicates": "isWhole",
    "predicates.isWhole.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.isWhole.pattern": r".*\.whole",
}


def _outbox(variant: str, **more: str) -> Case:
    options = {f"transforms.outbox.{name.replace('__', '.')}": value for name, value in more.items()}
    return Case("outbox", variant, {**_ROUTER, **_ONLY_OUTBOX, **options})


def _flatten(variant: str, **more: str) -> Case:
    options = {f"transforms.unwrap.{name.replace('__', '.')}": value for name, value in more.items()}
    return Case("flatten", variant, {**_UNWRAP, "skipped.operations": "none", **options})


def _shards(variant: str, **more: str) -> Case:
    options = {f"transforms.shards.{name.replace('__', '.')}": value for name, value in more.items()}
    replaced = {"transforms.shards.topic.regex": r"(.*)\.customers_(.*)"}
    replaced |= {"transforms.shards.topic.replacement": "$1.customers"}
    return Case("shards", variant, {**_LOGICAL, **replaced, **options})


CASES = (
    _outbox("defaults"),
    _outbox(
        "placed",
        table__fields__additional__placement="type:header:eventType,tenant:envelope,version:envelope:v,part:partition",
        table__field__event__timestamp="created",
        table__field__event__schema__version="version",
        route__topic__replacement="events.${routedByValue}",
    ),
    _outbox("expanded", table__expand__json__payload="true", route__tombstone__on__empty__payload="true"),
    _outbox(
        "expanded_nulls",
        table__expand__json__payload="true",
        table__json__payload__null__behavior="optional_bytes",
        table__field__event__key="tenant",
    ),
    _flatten("defaults"),
    _flatten("drop", delete__tombstone__handling__mode="drop"),
    _flatten("buried", delete__tombstone__handling__mode="delete-to-tombstone"),
    Case("flatten", "routed", {**_UNWRAP, **_ONLY_WHOLE, "transforms.unwrap.route.by.field": "region"}),
    _flatten(
        "rewritten",
        delete__tombstone__handling__mode="rewrite",
        add__fields="op,table,lsn,source.ts_ms,ts_ms:made",
        add__headers="op,db,source.schema",
    ),
    _flatten(
        "rewritten_kept",
        delete__tombstone__handling__mode="rewrite-with-tombstone",
        add__fields="op",
        add__fields__prefix="cdc.",
        add__headers="op,table:from",
        add__headers__prefix="h.",
    ),
    _shards("defaults"),
    _shards("named", key__field__name="shard", key__field__regex=r"(.*)\.customers_(.*)", key__field__replacement="$2"),
    _shards("plain", key__enforce__uniqueness="false"),
)


def main() -> None:
    """Record the named cases, or all of them."""
    from tests.oracle.record import record

    with PostgresServer() as server:
        (version,) = server.execute("show server_version")[0]
        for case in CASES:
            if not sys.argv[1:] or case.name in sys.argv[1:] or case.sql in sys.argv[1:]:
                record(server, case, str(version))


if __name__ == "__main__":
    main()
