"""Settings that Debezium and Kafka Connect know: names of old, values of old, and what has no effect here.

A source's options class lists its own in `renamed` and `no_effect`. What somebody declares as an option is left alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import Usage
from headwater.options import declared

LOG = logging.getLogger("headwater.options")

_CONNECT = "it steers Kafka Connect's own machinery"
_QUEUE = "memory is bounded by the journal, not by a queue"
_JDBC = "there is no JDBC here"
_LOCK = "the snapshot takes no locks: it reads at an exported snapshot"
# Patterns of names → why they mean nothing here.
NO_EFFECT: dict[str, str] = {
    r"connector\.class|tasks\.max|config\.action\.reload|predicates": _CONNECT,
    r"errors\.(retry|tolerance|log|deadletterqueue).*|retriable\.restart.*": "failures are retried",
    r"topic\.creation\..*": "topics are the broker's and the sink's business",
    r"key\.converter|value\.converter": "the format is chosen by the sink",
    r"offset\..*flush.*|offset\.storage.*": "positions are stored with the data",
    r"max\.batch\.size|max\.queue\.size(\.in\.bytes)?|poll\..*|queue\.provider\..*": _QUEUE,
    r"database\.(query\.timeout\.ms|initial\.statements|tcpKeepAlive|sslfactory|jdbc\.driver|protocol)": _JDBC,
    r"query\.fetch\.size|snapshot\.fetch\.size|connection\.validation.*|driver\..*": _JDBC,
    r"snapshot\.(locking\.mode|lock\.timeout\.ms|isolation\.mode|query\.mode)(\.custom\.name)?": _LOCK,
    r"(legacy\.)?snapshot\.(max\.threads.*|delay\.ms|tables\.order.*)": "tables are copied in parallel",
    r"streaming\.delay\.ms": "streaming begins when the tables are loaded",
    r"topic\.cache\.size|topic\.naming\.strategy": "topics are <prefix>.<schema>.<table>",
    r"transaction\.metadata\.factory|sourceinfo\.struct\.maker": "an interface for Java classes",
    r"statistics\.metrics\.enabled|custom\.metric\.tags|custom\.sanitize\.pattern|internal\.advanced\.metrics.*": "JMX",
    r"executor\.shutdown\.timeout\.ms|openlineage\..*|guardrail\..*|table\.ignore\.builtin": _CONNECT,
    r"schema\.history\.internal.*|database\.history.*|include\.schema\.changes": "the journal keeps schemas",
}
RENAMED: dict[str, str] = {
    "database.server.name": "topic.prefix",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "toasted.value.placeholder": "unavailable.value.placeholder",
}
# Old or missing words for `snapshot.mode` → (ours, what a person should know).
SNAPSHOT_MODES: dict[str, tuple[str, str]] = {
    "never": ("no_data", "its name is no_data now"),
    "schema_only": ("no_data", "its name is no_data now"),
    "schema_only_recovery": ("no_data", "the journal keeps schemas: nothing has to be recovered"),
    "recovery": ("no_data", "the journal keeps schemas: nothing has to be recovered"),
    "exported": ("initial", "every snapshot is an exported one"),
    "always": ("initial", "a table is copied once, not at every start"),
    "when_needed": ("initial", "a table is copied once; a lost slot stops the pipeline instead"),
    "initial_only": ("initial", "streaming goes on after the snapshot; `headwater run --available-now` ends by itself"),
}
_HEADER_CONVERTERS = {
    "org.apache.kafka.connect.json.JsonConverter": "json",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": "simple",
    "org.apache.kafka.connect.storage.StringConverter": "simple",
}


@dataclass
class Settled:
    """Options in today's names, and what was said about the rest."""

    options: dict[str, Any] = field(default_factory=dict)
    # Deprecated names and values that were mapped.
    mapped: list[str] = field(default_factory=list)
    # name → why it has no effect.
    no_effect: dict[str, str] = field(default_factory=dict)

    def say(self, where: str) -> None:
        """Tell it in the log: a line each."""
        for line in self.mapped:
            LOG.warning("%s: %s", where, line)
        for name, reason in self.no_effect.items():
            LOG.warning("%s: %s has no effect: %s", where, name, reason)


def settle(given: Mapping[str, Any], source_options: type, *others: type) -> Settled:
    """What is given, in names and values that the options classes know."""
    known = {name for cls in (source_options, *others) for d in declared(cls) for name in (d.name, *d.aliases)}
    renamed = {**RENAMED, **getattr(source_options, "renamed", {})}
    useless = {**NO_EFFECT, **getattr(source_options, "no_effect", {})}
    old_values = getattr(source_options, "old_values", {})
    settled = Settled()
    for key, value in given.items():
        name = key
        if key not in known and key in renamed:
            name = renamed[key]
            if name in given:
                raise Usage(f"{key!r} is the old name of {name!r}; keep one")
            if key in old_values:
                value = old_values[key].get(str(value).lower(), value)
                settled.mapped.append(f"{key} is {name}: {value} now")
            else:
                settled.mapped.append(f"{key} is called {name} now")
        if name not in known:
            reason = next((why for pattern, why in useless.items() if re.fullmatch(pattern, name)), None)
            if reason is not None:
                settled.no_effect[key] = reason
                continue
        settled.options[name] = value
    _snapshot_mode(settled, source_options)
    _converters(settled)
    return settled


def _snapshot_mode(settled: Settled, source_options: type) -> None:
    choices = next((d.choices for d in declared(source_options) if d.name == "snapshot"), ())
    for name in ("snapshot", "snapshot.mode"):
        mode = settled.options.get(name)
        if mode in SNAPSHOT_MODES and mode not in choices:
            settled.options[name], why = SNAPSHOT_MODES[mode]
            settled.mapped.append(f"{name}: {mode} becomes {settled.options[name]}: {why}")


def _converters(settled: Settled) -> None:
    """Kafka Connect sets converters twice, for keys and for values; here one setting serves both."""
    key, value = "key.converter.schemas.enable", "value.converter.schemas.enable"
    if key in settled.options and value in settled.options:
        if str(settled.options[key]).lower() != str(settled.options[value]).lower():
            raise Usage(
                f"{key} and {value} differ", "keys and values are written in one form: converter.schemas.enable"
            )
        del settled.options[key]
    header = settled.options.get("header.converter")
    if header in _HEADER_CONVERTERS:
        settled.options["header.converter"] = _HEADER_CONVERTERS[header]
