"""A pipeline file as data: read, interpolated, checked key by key. Starts nothing.

Unknown keys are errors that name the nearest known one; secrets come from `${ENV}` or `${file:…}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from headwater.dead_letters import DeadLetterSink, RetryingSink
from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.settings import settle
from headwater.journal import Limits
from headwater.journal.journal import open_storage
from headwater.options import Secret, option, parse_options, split_options
from headwater.registry import sink_class, source_class
from headwater.sinks.base import Sink
from headwater.sources.base import Source
from headwater.transforms.chain import Chain, build_chain
from headwater.transforms.connect_form import take_connect
from headwater.transforms.sink import TransformedSink

if TYPE_CHECKING:
    from headwater.formats.connector import Connector

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_REFERENCE = re.compile(r"(\$)?\$\{(file:)?([^}]+)\}")


@dataclass(frozen=True)
class HealthOptions:
    """`health:` of a pipeline file: the endpoint with /health, /ready and /metrics."""

    enabled: bool = option(True, help="whether a run answers over HTTP at all")
    host: str = option("127.0.0.1", help="address to listen on; anybody who reaches it may read it")
    port: int = option(0, help="port to listen on; 0: any free one, told at start and by headwater status")


@dataclass(frozen=True)
class AlarmOptions:
    """`alarms:` of a pipeline file: thresholds, and who hears of them besides the log."""

    behind_seconds: float | None = option(None, help="the log, or a sink, is behind for longer than this")
    behind_bytes: int | None = option(None, help="more than this much log is not read, or not delivered")
    retained_bytes: int | None = option(None, help="the server keeps more log than this for us")
    safe_bytes: int | None = option(None, help="less log than this may be written until what is kept gets lost")
    safe_seconds: float | None = option(
        None,
        help="less time than this is left until log that is kept by time gets lost; a quarter of what the server keeps",
    )
    not_ready_seconds: float | None = option(60.0, help="data has not flowed for this long")
    webhook: Secret = option(Secret(""), help="URL that gets a JSON POST when an alarm begins and when it is over")

    def __post_init__(self) -> None:
        if self.webhook and not self.webhook.reveal().startswith(("http://", "https://")):
            raise Usage("alarms: webhook must begin with http:// or https://")


@dataclass(frozen=True)
class PipelineOptions:
    """The top level of a pipeline file."""

    name: str = option(help="name of the pipeline; also the default topic prefix")
    source: Mapping[str, Any] = option(help="where changes come from: `type` and its options")
    sinks: list[Any] = option(help="where changes go: a list, each with `type` and its options")
    state: str = option(".headwater/{name}", help="folder for the journal, the status and logs")
    journal: str = option(
        "", help="where the journal lies when not in `state`: s3://bucket/prefix, kafka://broker:port/topic"
    )
    journal_max_bytes: int = option(
        20 << 30, help="cap of the journal; at the cap reading pauses and the server keeps the rest"
    )
    journal_keep_hours: float = option(
        0.0, help="how long the journal keeps what every sink holds, for headwater replay; the cap goes before"
    )
    journal_seal_ms: int = option(
        500, help="s3, kafka: what was read is stored at least this often, so that readers see it"
    )
    journal_seal_bytes: int = option(
        8 << 20, help="s3, kafka: what is stored at once; the tail holds three times this in memory at most"
    )
    batch_max_bytes: int = option(
        96 << 20, help="raw bytes of log in one micro-batch: more means fewer, larger commits and more memory"
    )
    batch_min_ms: int = option(
        100, help="a batch begins at most this often: what comes meanwhile goes into one commit instead of many"
    )
    batch_driver_bytes: int = option(
        1 << 20, help="up to this much log is delivered by the driver itself, without a Spark job; 0: always by a job"
    )
    transforms: list[Any] = option([], help="what happens on the way: a list, each with `type` and its options")
    health: Mapping[str, Any] = option({}, help="the endpoint with /health, /ready and /metrics: host, port, enabled")
    alarms: Mapping[str, Any] = option({}, help="thresholds and a webhook, e.g. behind_seconds: 300")
    spark: Mapping[str, Any] = option({}, help="Spark settings, e.g. spark.master: local[4]")


@dataclass(frozen=True)
class Definition:
    """A pipeline that can be started."""

    name: str
    source: Source
    sinks: Mapping[str, Sink]
    state: Path
    # A folder, or a URL.
    journal: str
    limits: Limits
    batch_max_bytes: int
    spark: Mapping[str, str]
    batch_min_ms: int = PipelineOptions.batch_min_ms
    batch_driver_bytes: int = PipelineOptions.batch_driver_bytes
    # How events look, for sinks that carry events; and what happens to changes and events on the way.
    debezium: DebeziumOptions = field(default_factory=DebeziumOptions)
    transforms: Chain = field(default_factory=Chain)
    health: HealthOptions = field(default_factory=HealthOptions)
    alarms: AlarmOptions = field(default_factory=AlarmOptions)

    @property
    def tail_folder(self) -> Path:
        """What the tail has on its own machine. The journal too, unless that lies elsewhere."""
        return self.state / "journal"


def read_definition(path: str | os.PathLike[str]) -> Definition:
    """The pipeline that a file describes. Everything wrong in it raises Usage, naming the key."""
    if "://" in os.fspath(path):
        # Not shown: it may hold a password.
        raise Usage("a pipeline's file is wanted here, not a URL", "headwater run FILE; the README shows one")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"cannot read the pipeline file {os.fspath(path)!r}: {error}") from error
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may hold a password.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Usage(f"{os.fspath(path)} is not YAML{place}", getattr(error, "problem", None) or "") from None
    if not isinstance(raw, dict):
        raise Usage(f"{os.fspath(path)}: a mapping with name, source and sinks is wanted")
    return build_definition(interpolate(raw))


def build_definition(given: Mapping[str, Any]) -> Definition:
    """A definition from plain values, as the file has them."""
    options = parse_options(PipelineOptions, given, where="pipeline", name=str(given.get("name", "")))
    if not _NAME.fullmatch(options.name):
        raise Usage(f"pipeline: name {options.name!r} must consist of letters, digits, _ and -")
    sinks: dict[str, Sink] = {}
    places: dict[tuple[str, str], str] = {}
    if not options.sinks:
        raise Usage("pipeline: sinks is empty", "Name at least one, e.g. {type: delta, path: lake}")
    source, debezium, more = _source(options.source, options.name)
    chain = build_chain([*options.transforms, *more])
    for number, section in enumerate(options.sinks):
        where = f"sinks[{number}]"
        name, sink, on_error = _sink(section, where, options.name)
        if (place := sink.place()) and (other := places.setdefault((sink.type, place), where)) != where:
            raise Usage(
                f"pipeline: {other} and {where} would both write to {place}",
                "Give each a place of its own, or leave one out; two forms of the same changes: two pipelines",
            )
        sink.name = name if name not in sinks else f"{name}-{number}"
        sinks[sink.name] = _guarded(_transformed(sink, chain, debezium, source), on_error, Path(options.state))
    return Definition(
        name=options.name,
        source=source,
        sinks=sinks,
        state=Path(options.state),
        journal=open_storage(options.journal or str(Path(options.state) / "journal")).place,
        limits=_limits(options),
        batch_max_bytes=options.batch_max_bytes,
        batch_min_ms=options.batch_min_ms,
        batch_driver_bytes=options.batch_driver_bytes,
        spark={str(key): _spark_text(value) for key, value in options.spark.items()},
        debezium=debezium,
        transforms=chain,
        health=parse_options(HealthOptions, options.health, where="health"),
        alarms=parse_options(AlarmOptions, options.alarms, where="alarms"),
    )


def _limits(options: PipelineOptions) -> Limits:
    if options.journal_seal_ms < 0 or options.journal_seal_bytes <= 0:
        raise Usage("pipeline: journal_seal_ms and journal_seal_bytes must not be negative, and the size not 0")
    return Limits(
        max_bytes=options.journal_max_bytes,
        keep_seconds=options.journal_keep_hours * 3600,
        seal_seconds=options.journal_seal_ms / 1000,
        seal_bytes=options.journal_seal_bytes,
    )


def _spark_text(value: Any) -> str:
    """YAML's true as Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _source(section: Any, name: str) -> tuple[Source, DebeziumOptions, list[dict[str, Any]]]:
    """(the source, how its events look, transforms in Kafka Connect's form)."""
    kind, given = _typed(section, "source")
    cls = source_class(kind)
    sections, given = take_connect(given, "source")
    settled = settle(given, cls.options_class, DebeziumOptions)
    settled.say("source")
    own, debezium = split_options(settled.options, cls.options_class, DebeziumOptions, where="source")
    # A slot or publication name allows no hyphen without quoting everywhere.
    source = cls(parse_options(cls.options_class, own, where="source", name=name.replace("-", "_").lower()))
    return source, parse_options(DebeziumOptions, debezium, where="source", name=name), sections


def _transformed(sink: Sink, chain: Chain, debezium: DebeziumOptions, source: Source) -> Sink:
    """The sink behind the transforms; one that carries events applies column options and event transforms itself."""
    use = getattr(sink, "use_events", None)
    if use is not None:
        use(debezium, chain.events, partial(_connector, source), source.options.heartbeat_interval_ms)
        return TransformedSink(sink, chain) if chain.changes else sink
    if chain.events:
        raise Usage(
            f"sink {sink.name!r} takes rows, not events: the transform {chain.events[0].type!r} cannot apply to it",
            "use a transform of changes (filter, columns, mask, route), or a sink that carries events",
        )
    if not debezium.names_columns:
        return TransformedSink(sink, Chain(chain.changes)) if chain.changes else sink
    # Here, not above: it loads kernels, and most pipelines name no columns.
    from headwater.transforms.column_rules import ColumnRulesTransform

    rules = ColumnRulesTransform(debezium)
    changes = (rules, *chain.changes) if rules.rules else chain.changes
    return TransformedSink(sink, Chain(changes)) if changes else sink


def _guarded(sink: Sink, on_error: str, state: Path) -> Sink:
    """The sink behind what `on_error` says about records that it refuses."""
    match on_error:
        case "retry":
            return RetryingSink(sink)
        case "dead_letter":
            return DeadLetterSink(sink, state)
        case _:
            return sink


def _connector(source: Source) -> Connector:
    """The database as events show it. Asks the server."""
    return source.connector(source.facts())


def _sink(section: Any, where: str, pipeline: str) -> tuple[str, Sink, str]:
    """(its name, the sink, what becomes of records that it refuses)."""
    kind, given = _typed(section, where)
    name = str(given.pop("name", kind))
    cls = sink_class(kind)
    options = parse_options(cls.options_class, given, where=where, name=pipeline)
    return name, cls(options, pipeline=pipeline), options.on_error


def _typed(section: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(section, Mapping) or "type" not in section:
        raise Usage(f"pipeline: {where}: a mapping with `type` is wanted")
    given = dict(section)
    return str(given.pop("type")), given


def interpolate(value: Any) -> Any:
    """`${NAME}` from the environment and `${file:PATH}` from a file, anywhere in a value's texts; `$${` is `${`."""
    if isinstance(value, dict):
        # Names too: the salt of column.mask.hash… is part of one.
        return {interpolate(key): interpolate(part) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolate(part) for part in value]
    return _REFERENCE.sub(_resolve, value) if isinstance(value, str) else value


def _resolve(match: re.Match[str]) -> str:
    escaped, is_file, name = match.groups()
    if escaped:
        return match[0][1:]
    if is_file:
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Usage(f"${{file:{name}}}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise Usage(f"${{file:{name}}}: the file is not UTF-8 text") from None
    if name not in os.environ:
        raise Usage(f"${{{name}}}: this environment variable is not set")
    return os.environ[name]
