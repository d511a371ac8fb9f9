"""Debezium's options that choose, mask, hash, truncate and annotate columns (`column.*`), as rules over names.

The names of some carry parameters: `column.mask.with.12.chars`. The events' values follow these rules, their keys
never do. Of several rules that match a column one applies, in the order truncate, mask, hash; the source type is
added where none of them did.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.errors import Usage
from headwater.event import Column, TableSchema
from headwater.formats import masking
from headwater.formats.connect import Schema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.row import ColumnForm, RowForm
from headwater.formats.writers import Writer, string_text

LOG = logging.getLogger(__name__)

_TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars", re.IGNORECASE)
_MASK = re.compile(r"column\.mask\.with\.(\d+)\.chars", re.IGNORECASE)
_HASH = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)", re.IGNORECASE)
SOURCE_TYPE = "__debezium.source.column"

ArrayMap = Callable[[pa.Array], pa.Array]
# (type name, length, scale) of a column as the database declares it; None where it declares none.
Size = tuple[str, int | None, int | None]


@dataclass(frozen=True)
class Rule:
    """What happens to the columns under some name patterns."""

    option: str
    patterns: tuple[re.Pattern[str], ...]
    # truncate, mask, hash or hash.v2
    kind: str
    length: int = 0
    algorithm: str = ""
    salt: str = ""

    def map_for(self, column: Column) -> ArrayMap | None:
        """The values' new form; None when the column's type has no such form."""
        text = pa.types.is_string(column.arrow)
        if self.kind == "truncate":
            fits = text or pa.types.is_binary(column.arrow)
            return (lambda array: masking.truncated(array, self.length)) if fits else None
        if not text:
            return None
        if self.kind == "mask":
            return lambda array: masking.asterisks(array, self.length)
        length, java = column.detail.get("length"), self.kind == "hash"
        return lambda array: masking.hashed(array, self.algorithm, self.salt, length, java=java)

    def parameters(self, column: Column) -> tuple[tuple[str, str], ...]:
        """What the column's schema says of it."""
        if self.kind != "truncate":
            return (("masked", "true"),)
        declared = column.detail.get("length")
        return (("truncateLength", str(self.length)),) if declared is None or declared > self.length else ()


class ColumnRules:
    """All column options of a source, understood."""

    def __init__(self, options: DebeziumOptions) -> None:
        if options.column_include_list and options.column_exclude_list:
            raise Usage("column.include.list and column.exclude.list exclude each other; keep one")
        self.include = regexes(options.column_include_list, "column.include.list")
        self.exclude = regexes(options.column_exclude_list, "column.exclude.list")
        self.rules = sorted(map(_rule, options.column_rules.items()), key=lambda rule: _ORDER[rule.kind])
        self.typed = regexes(options.column_propagate_source_type, "column.propagate.source.type")
        self.typed_kinds = regexes(options.datatype_propagate_source_type, "datatype.propagate.source.type")

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude or self.rules or self.typed or self.typed_kinds)

    def captured(self, table: TableSchema, column: str) -> bool:
        """Whether a column is in the events' values."""
        name = f"{table.unquoted}.{column}"
        return matches(self.include, name) if self.include else not matches(self.exclude, name)

    def rule_for(
        self, table: TableSchema, column: Column, form: ColumnForm | None = None
    ) -> tuple[Rule, ArrayMap] | None:
        """The rule that hides a column's values, and how; in events the column's form has to be text too."""
        name = f"{table.unquoted}.{column.name}"
        for rule in self.rules:
            if not matches(rule.patterns, name):
                continue
            found = rule.map_for(column)
            if found is not None and (form is None or _suits(rule, form, column)):
                return rule, found
            LOG.warning("%s has no effect on %s: %s is no text", rule.option, name, column.type)
        return None

    def row(self, form: RowForm, table: TableSchema, size: Callable[[Column], Size]) -> RowForm:
        """A table's row as its events' values show it."""
        if not self:
            return form
        kept = (one for one in form.columns if self.captured(table, one.column))
        return replace(form, columns=tuple(self._form(one, table, size) for one in kept))

    def _form(self, form: ColumnForm, table: TableSchema, size: Callable[[Column], Size]) -> ColumnForm:
        column = table.column(form.column)
        ruled = self.rule_for(table, column, form)
        if ruled is not None:
            rule, mapped = ruled
            write = string_text if rule.kind != "truncate" else form.write
            changed = replace(form, write=_through(mapped, write), schema=_with(form, rule.parameters(column)))
            if rule.kind != "mask":
                return changed
            # A constant stands for missing values too.
            constant = f'"{"*" * rule.length}"'
            return replace(changed, zero=constant, unavailable=constant)
        named = matches(self.typed, f"{table.unquoted}.{column.name}")
        if named or matches(self.typed_kinds, size(column)[0]):
            return replace(form, schema=_with(form, _source_type(column, size(column))))
        return form


def _suits(rule: Rule, form: ColumnForm, column: Column) -> bool:
    """A numeric or a time may be text in a change, but a number in events."""
    if rule.kind == "truncate":
        return form.write is string_text or pa.types.is_binary(column.arrow)
    return form.schema.type == "string"


def _through(mapped: ArrayMap, write: Writer) -> Writer:
    return lambda array: write(mapped(array))


def _with(form: ColumnForm, parameters: tuple[tuple[str, str], ...]) -> Schema:
    return replace(form.schema, parameters=(*form.schema.parameters, *parameters))


def _source_type(column: Column, size: Size) -> tuple[tuple[str, str], ...]:
    kind, length, scale = size
    comment = column.detail.get("comment")
    facts = {"type": kind.upper(), "length": length, "scale": scale, "comment": comment, "name": column.name}
    return tuple((f"{SOURCE_TYPE}.{name}", str(value)) for name, value in facts.items() if value is not None)


_ORDER = {"truncate": 0, "mask": 1, "hash": 2, "hash.v2": 2}


def _rule(entry: tuple[str, str]) -> Rule:
    option, value = entry
    patterns = regexes(value, option)
    if found := _TRUNCATE.fullmatch(option):
        return Rule(option, patterns, "truncate", int(found[1]))
    if found := _MASK.fullmatch(option):
        return Rule(option, patterns, "mask", int(found[1]))
    found = _HASH.fullmatch(option)
    if found is None:
        raise Usage(f"{option!r} is no column option")
    shown = f"column.mask.hash.{found[1] or ''}{found[2]}"
    kind = "hash.v2" if found[1] else "hash"
    return Rule(shown, patterns, kind, algorithm=masking.check_algorithm(found[2], shown), salt=found[3])


def regexes(text: str, option: str) -> tuple[re.Pattern[str], ...]:
    r"""Comma-separated, case-insensitive patterns; `\,` is a comma inside of one."""
    parts = (part.replace(r"\,", ",").strip() for part in re.split(r"(?<!\\),", text))
    try:
        return tuple(re.compile(part, re.IGNORECASE) for part in parts if part)
    except re.error as error:
        raise Usage(f"{option}: not a regular expression: {error}") from error


def matches(patterns: Iterable[re.Pattern[str]], name: str) -> bool:
    """Whether one of the patterns is the whole name."""
    return any(pattern.fullmatch(name) for pattern in patterns)
