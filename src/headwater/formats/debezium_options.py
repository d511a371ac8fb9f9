"""Options of the Debezium formats, under Debezium's own names."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.options import option

# The release whose events these are; the place where a consumer looks for it is `source.version`.
VERSION = "3.6.1.Final"


@dataclass(frozen=True)
class DebeziumOptions:
    """How changes look as Debezium events."""

    topic_prefix: str = option("{name}", help="first part of every topic and schema name", aliases=["topic.prefix"])
    topic_delimiter: str = option(".", help="between the parts of a topic name", aliases=["topic.delimiter"])
    schemas_enable: bool = option(
        False,
        help="write the schema beside every key and value, as Kafka Connect does by default",
        aliases=[
            "schemas.enable",
            "converter.schemas.enable",
            "value.converter.schemas.enable",
            "key.converter.schemas.enable",
        ],
    )
    decimal_handling_mode: str = option(
        "precise",
        help="numeric as exact bytes, as double or as text",
        aliases=["decimal.handling.mode"],
        choices=["precise", "double", "string"],
    )
    time_precision_mode: str = option(
        "adaptive",
        help="how dates and times are written",
        aliases=["time.precision.mode"],
        choices=[
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ],
    )
    binary_handling_mode: str = option(
        "bytes",
        help="bytea as bytes (base64 in JSON) or as text in this encoding",
        aliases=["binary.handling.mode"],
        choices=["bytes", "base64", "base64-url-safe", "hex"],
    )
    bigint_unsigned_handling_mode: str = option(
        "long",
        help="unsigned 64-bit integers as signed ones, which wrap, or as exact bytes",
        aliases=["bigint.unsigned.handling.mode"],
        choices=["long", "precise"],
    )
    interval_handling_mode: str = option(
        "numeric",
        help="interval as microseconds (a month is 365.25/12 days) or as ISO 8601 text",
        aliases=["interval.handling.mode"],
        choices=["numeric", "string"],
    )
    hstore_handling_mode: str = option(
        "json",
        help="hstore as JSON text or as a map",
        aliases=["hstore.handling.mode"],
        choices=["json", "map"],
    )
    money_fraction_digits: int = option(2, help="digits after the point of money", aliases=["money.fraction.digits"])
    include_unknown_datatypes: bool = option(
        False,
        help="columns of types without a mapping as bytes of their text, instead of leaving them out",
        aliases=["include.unknown.datatypes"],
    )
    unavailable_value_placeholder: str = option(
        "__debezium_unavailable_value",
        help="stands for a value that the log left out; hex: before it gives bytes",
        aliases=["unavailable.value.placeholder"],
    )
    tombstones_on_delete: bool = option(
        True, help="after every delete a record with the same key and no value", aliases=["tombstones.on.delete"]
    )
    provide_transaction_metadata: bool = option(
        False, help="fill the `transaction` block of every event", aliases=["provide.transaction.metadata"]
    )
    skipped_operations: list[str] = option(
        ["t"], help="operations to leave out: c, u, d, t; or none", aliases=["skipped.operations"]
    )
    converting_failure: str = option(
        "fail",
        help="a value that has no representation: fail, or null in its place (Debezium's own default is warn)",
        aliases=["event.converting.failure.handling.mode"],
        choices=["fail", "warn", "skip"],
    )
    message_key_columns: str = option(
        "", help="table-regex:column,column; … instead of the primary key", aliases=["message.key.columns"]
    )
    column_include_list: str = option(
        "",
        help="columns in the events' values: regular expressions of schema.table.column",
        aliases=["column.include.list"],
    )
    column_exclude_list: str = option(
        "", help="columns that are left out of the values, never of the key", aliases=["column.exclude.list"]
    )
    column_rules: dict[str, str] = option(
        {},
        help="column.mask.with.<n>.chars, column.mask.hash.v2.<algorithm>.with.salt.<salt>,"
        " column.mask.hash.<algorithm>.with.salt.<salt>, column.truncate.to.<n>.chars: columns to hide or shorten",
        pattern=r"column\.(mask\.with|truncate\.to)\.\d+\.chars|column\.mask\.hash\.(v2\.)?[^.]+\.with\.salt\..+",
    )
    column_propagate_source_type: str = option(
        "", help="columns whose schema names the source's own type", aliases=["column.propagate.source.type"]
    )
    datatype_propagate_source_type: str = option(
        "", help="the same by type names, e.g. numeric", aliases=["datatype.propagate.source.type"]
    )
    processing_failure: str = option(
        "fail",
        help="an event that cannot be made: fail, or leave it out (warn says so in the log)",
        aliases=["event.processing.failure.handling.mode"],
        choices=["fail", "warn", "skip", "ignore"],
    )
    schema_name_adjustment: str = option(
        "none",
        help="make schema names fit for Avro",
        aliases=["schema.name.adjustment.mode"],
        choices=["none", "avro", "avro_unicode"],
    )
    field_name_adjustment: str = option(
        "none",
        help="make field names fit for Avro",
        aliases=["field.name.adjustment.mode"],
        choices=["none", "avro", "avro_unicode"],
    )
    include_schema_comments: bool = option(
        False, help="column comments in the schema", aliases=["include.schema.comments"]
    )
    extended_headers: bool = option(
        True, help="headers that name the connector and the run", aliases=["extended.headers.enabled"]
    )
    header_converter: str = option(
        "simple",
        help="header values as Kafka Connect's default converter writes them (text as it is), or as JSON",
        aliases=["header.converter"],
        choices=["simple", "json"],
    )
    topic_transaction: str = option(
        "transaction", help="last part of the transaction topic's name", aliases=["topic.transaction"]
    )
    topic_heartbeat_prefix: str = option(
        "__debezium-heartbeat", help="first part of the heartbeat topic's name", aliases=["topic.heartbeat.prefix"]
    )
    topic_heartbeat_name: str = option("", help="whole name of the heartbeat topic", aliases=["topic.heartbeat.name"])
    version: str = option(VERSION, help="what `source.version` says", hidden=True)

    @property
    def names_columns(self) -> bool:
        """Whether any column.* option is given; what carries them out loads kernels, so it is asked first."""
        named = (self.column_include_list, self.column_exclude_list, self.column_rules)
        return any(named) or any((self.column_propagate_source_type, self.datatype_propagate_source_type))
