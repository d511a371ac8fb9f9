"""What Debezium is asked about its transforms and Kafka Connect's: the SQL of tests/golden/debezium under settings."""

from __future__ import annotations

from .cases import Case

_ROUTER = {"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"}
_UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
_LOGICAL = {"transforms": "shards", "transforms.shards.type": "io.debezium.transforms.ByLogicalTableRouter"}
_HEADER = "org.apache.kafka.connect.transforms.InsertHeader"
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


def _connect(variant: str, *transforms: dict[str, str], **properties: str) -> Case:
    """A chain of Connect's own transforms and Debezium's small ones."""
    chain = {f"t{number}": transform for number, transform in enumerate(transforms)}
    options = {f"transforms.{alias}.{name}": value for alias, each in chain.items() for name, value in each.items()}
    return Case("flatten", variant, {"transforms": ",".join(chain), **options, **properties})


def _shards(variant: str, **more: str) -> Case:
    options = {f"transforms.shards.{name.replace('__', '.')}": value for name, value in more.items()}
    replaced = {"transforms.shards.topic.regex": r"(.*)\.customers_(.*)"}
    replaced |= {"transforms.shards.topic.replacement": "$1.customers"}
    return Case("shards", variant, {**_LOGICAL, **replaced, **options})


TRANSFORM_CASES = (
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
    _connect(
        "dropped",
        {"type": _HEADER, "header": "without", "value.literal": '["name", "id"]'},
        {
            "type": _UNWRAP["transforms.unwrap.type"],
            "drop.fields.header.name": "without",
            "drop.fields.from.key": "true",
        },
    ),
    _connect(
        "dropped_required",
        {"type": _HEADER, "header": "without", "value.literal": '["price", "region"]'},
        {
            "type": _UNWRAP["transforms.unwrap.type"],
            "drop.fields.header.name": "without",
            "drop.fields.keep.schema.compatible": "false",
        },
    ),
    _connect(
        "inserted",
        {"type": _UNWRAP["transforms.unwrap.type"], "delete.tombstone.handling.mode": "rewrite"},
        {
            "type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "static.field": "origin",
            "static.value": "shop",
            "topic.field": "topic!",
        },
        {"type": _HEADER, "header": "tenant", "value.literal": "acme"},
    ),
    _connect(
        "from_header",
        {"type": _HEADER, "header": "tenant", "value.literal": "acme"},
        {
            "type": "io.debezium.transforms.HeaderToValue",
            "headers": "tenant",
            "fields": "tenant",
            "operation": "move",
        },
        **{"tombstones.on.delete": "false"},
    ),
    _connect(
        "rerouted",
        {
            "type": "org.apache.kafka.connect.transforms.RegexRouter",
            "regex": r"srv\.public\.(.*)",
            "replacement": "all.$1",
        },
    ),
)
