"""Everything that can be wrong with topics before they are read. Only looks; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

from headwater.errors import HeadwaterError
from headwater.event import TableSchema
from headwater.kafka_cluster import TIMEOUT
from headwater.sources.base import Finding, Kept, Severity
from headwater.sources.kafka.avro import Registry
from headwater.sources.kafka.connection import Topics
from headwater.sources.kafka.options import KafkaOptions
from headwater.wording import duration_text

_OK, _WARNING, _ERROR = Severity.OK, Severity.WARNING, Severity.ERROR
# Less than this, and a pipeline that stands still over a weekend has to load its tables anew.
SHORT_RETENTION_HOURS = 24.0


def check(options: KafkaOptions, tables: Callable[[], list[TableSchema]]) -> list[Finding]:
    """See `Source.check`."""
    try:
        topics = Topics(options)
        chosen = topics.refuse_none()
        findings = [Finding("cluster", _OK, f"{topics.where} has {len(chosen)} topics to read")]
        findings += [*_registry(options), *_retention(_configs(topics, chosen))]
        if any(finding.severity == _ERROR for finding in findings):
            return findings
        return [*findings, *_tables(tables())]
    except HeadwaterError as error:
        return [Finding("cluster", _ERROR, error.what, "; ".join((error.cause, *error.remedies)).strip("; "))]


def kept(topics: Topics) -> Kept | None:
    """How long the topics keep records: the one that keeps them shortest."""
    seconds = [found for found in map(_seconds, _configs(topics, topics.chosen()).values()) if found is not None]
    return Kept(0, min(seconds) if seconds else None)


def _configs(topics: Topics, chosen: Mapping[str, int]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in chosen]
    if not resources:
        return {}
    try:
        asked = topics.admin.describe_configs(resources, request_timeout=TIMEOUT)
        return {
            resource.name: {name: str(entry.value) for name, entry in future.result().items()}
            for resource, future in asked.items()
        }
    except KafkaException:
        # An account may read topics without being allowed to look at their settings.
        return {}


def _seconds(config: Mapping[str, str]) -> float | None:
    """How long a topic keeps its records; None: for ever."""
    if "delete" not in config.get("cleanup.policy", "delete"):
        return None
    milliseconds = int(config.get("retention.ms", -1))
    return None if milliseconds < 0 else milliseconds / 1000


def _retention(configs: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    found = []
    for topic, config in configs.items():
        seconds = _seconds(config)
        if "compact" in config.get("cleanup.policy", ""):
            text = f"{topic} is compacted: changes that a later one of the same row follows may be missing"
            found.append(Finding("retention", _WARNING, text, "fine for upsert; append and scd2 want all of them"))
        if seconds is not None and seconds < SHORT_RETENTION_HOURS * 3600:
            text = f"{topic} keeps records for {seconds / 3600:.1f} h: a pipeline down for longer must start anew"
            found.append(Finding("retention", _WARNING, text, f"set retention.ms of {topic} to 604800000"))
    if found or not configs:
        return found
    shortest = min((s for s in map(_seconds, configs.values()) if s is not None), default=None)
    kept = "for ever" if shortest is None else f"for {duration_text(shortest)} at least"
    return [Finding("retention", _OK, f"records are kept {kept}")]


def _registry(options: KafkaOptions) -> list[Finding]:
    if not options.registry:
        return []
    try:
        Registry(options.registry_settings()).check()
    except HeadwaterError as error:
        return [Finding("registry", _ERROR, error.what, error.cause)]
    return [Finding("registry", _OK, options.registry)]


def _tables(tables: list[TableSchema]) -> list[Finding]:
    found = []
    for table in tables:
        if not table.key:
            text = f"{table.table}: the records of {table.detail['topic']} have no key: rows can only be appended"
            found.append(Finding("tables", _WARNING, text, "give the table a primary key, or set message.key.columns"))
        if table.detail["form"] == "plain":
            text = f"{table.table}: its events come without a schema, so types are those of JSON"
            remedy = "value.converter.schemas.enable=true at the connector, or source.cast"
            found.append(Finding("tables", _WARNING, text, remedy))
    if not tables:
        text = "no topic holds an event yet, or source.tables leaves them all out"
        return [Finding("tables", _WARNING, text, "tables appear with their first event")]
    return [*found, Finding("tables", _OK, f"{len(tables)} captured")]
