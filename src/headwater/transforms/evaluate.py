"""Expressions over a batch of changes, evaluated by Arrow a column at a time, with SQL's three-valued logic.

What can be named: `op`, `before.x`, `after.x`, `x` alone (the row after; of a delete, the row before),
`source.schema`, `source.table`, `source.db`, `source.lsn`, `source.txId`, `source.ts_ms`, `topic`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop, Usage
from headwater.event import ChangeBatch
from headwater.formats.envelope import from_before
from headwater.transforms.functions import FUNCTIONS, Value
from headwater.transforms.syntax import Call, Literal, Name, Node, parse

_FACTS = ("op", "topic")
_SOURCE = ("schema", "table", "db", "lsn", "txId", "ts_ms")
_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("text", "varchar", "string", "char"), pa.string()),
    **dict.fromkeys(("int", "integer", "int4"), pa.int32()),
    **dict.fromkeys(("bigint", "int8", "long"), pa.int64()),
    **dict.fromkeys(("smallint", "int2"), pa.int16()),
    **dict.fromkeys(("double", "float8", "float"), pa.float64()),
    **dict.fromkeys(("boolean", "bool"), pa.bool_()),
    "real": pa.float32(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "numeric": pa.decimal128(38, 10),
    "decimal": pa.decimal128(38, 10),
}


@dataclass(frozen=True)
class Scope:
    """The names of one batch."""

    batch: ChangeBatch
    # What events know and changes do not: `op` after a split, `topic`, `source.db`.
    facts: Mapping[str, Value] = field(default_factory=dict)

    def column(self, name: Name, where: str) -> Value:
        """The values of a name; Usage when there is no such name."""
        parts = name.parts[1:] if name.parts[0] == "value" and len(name.parts) > 1 else name.parts
        match parts:
            case ("op",):
                return self.facts.get("op", self.batch.op)
            case (word,) if word in self.facts:
                return self.facts[word]
            case ("source", word):
                return self._source(word, where)
            case ("before", column):
                return pc.struct_field(self.batch.before, self._place(column, where))
            case ("after", column):
                return self._after(self._place(column, where), where)
            case (column,):
                place = self._place(column, where)
                deleted = pc.equal(self.batch.op, "d")
                return pc.if_else(deleted, pc.struct_field(self.batch.before, place), self._after(place, where))
        raise self._unknown(".".join(parts), where)

    def _place(self, column: str, where: str) -> list[int]:
        names = [known.name for known in self.batch.table.columns]
        for spelled in (column, column.lower()):
            if spelled in names:
                # By number: Arrow would take a dot in a name for a path.
                return [names.index(spelled)]
        raise self._unknown(column, where)

    def _after(self, place: list[int], where: str) -> pa.Array:
        """A column of the row after. A value that the log left out is not null: it is what it was before."""
        batch = self.batch
        name = batch.table.columns[place[0]].name
        left_out = batch.unchanged_masks.get(name)
        if left_out is None:
            return pc.struct_field(batch.after, place)
        after, still_out = from_before(batch, {name: left_out})
        if still_out:
            raise Stop(
                f"{where}: an update of {batch.table.table} does not carry {name!r}, whose value did not change",
                f"alter table {batch.table.table} replica identity full;",
                cause="the log leaves out large values that an update does not touch",
            )
        return pc.struct_field(after, place)

    def _source(self, word: str, where: str) -> Value:
        records, table = self.batch.records, self.batch.table
        match word:
            case "schema":
                return pa.scalar(table.schema)
            case "table":
                return pa.scalar(table.name)
            case "lsn":
                return records.column("lsn")
            case "txId" | "txid":
                return records.column("transaction_id")
            case "ts_ms":
                micros = records.column("commit_time").cast(pa.int64())
                return pc.divide(micros, pa.scalar(1000, pa.int64()))
            case "db" if "db" in self.facts:
                return self.facts["db"]
        raise self._unknown(f"source.{word}", where)

    def _unknown(self, name: str, where: str) -> Usage:
        columns = [column.name for column in self.batch.table.columns]
        known = [*_FACTS, *(f"source.{word}" for word in _SOURCE), *columns]
        known += [f"{side}.{column}" for side in ("before", "after") for column in columns]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "it has: " + ", ".join(columns)
        limit = "if only some tables have it, name them: tables: [schema.table]"
        return Usage(f"{where}: {self.batch.table.table} has no column {name!r}", hint, limit)


class Expression:
    """A parsed expression: functions are checked at once, names when a table is seen."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.tree = parse(text, where)
        _check_functions(self.tree, where)

    def evaluate(self, scope: Scope) -> Value:
        """One value per change, or one for all."""
        try:
            return self._value(self.tree, scope)
        except pa.ArrowNotImplementedError as error:
            raise Usage(
                f"{self.where}: the types in {self.text!r} do not go together for {scope.batch.table.table}",
                "say what is meant: cast(after.x as bigint)",
                cause=str(error).splitlines()[0],
            ) from error
        except (TypeError, AttributeError) as error:
            raise Usage(
                f"{self.where}: a function in {self.text!r} has the wrong number of arguments, or a column where only a"
                " constant can stand"
            ) from error
        except pa.ArrowInvalid as error:
            # Arrow's own message shows the value; ours does not.
            raise Stop(
                f"{self.where}: {self.text!r} fails on a value of {scope.batch.table.table}",
                "a cast met a text that is no such value, or a number that does not fit",
            ) from error

    def truth(self, scope: Scope) -> pa.BooleanArray:
        """True exactly where the expression is TRUE: unknown is not."""
        value = self.evaluate(scope)
        if not pa.types.is_boolean(value.type):
            raise Usage(
                f"{self.where}: {self.text!r} is {value.type}, not a condition", "for example: after.price > 100"
            )
        rows = len(scope.batch)
        array = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
        return pc.fill_null(array, False)

    def texts(self, scope: Scope) -> pa.StringArray:
        """The value as text."""
        value = self.evaluate(scope)
        array = pa.repeat(value, len(scope.batch)) if isinstance(value, pa.Scalar) else value
        return array.cast(pa.string())

    def _value(self, node: Node, scope: Scope) -> Value:
        match node:
            case Literal(value=None):
                return pa.scalar(None, pa.bool_())
            case Literal(value=value):
                try:
                    return pa.scalar(value)
                except pa.ArrowInvalid:
                    # Only a number with more digits than decimals have.
                    raise Usage(f"{self.where}: a number has more than 76 digits") from None
            case Name():
                return scope.column(node, self.where)
            case Call(function="cast", arguments=(inner, Literal(value=str() as kind))):
                return pc.cast(self._value(inner, scope), _type(kind, self.where))
            case Call(function=("like" | "ilike" | "~" | "~*" | "!~" | "!~*") as sign, arguments=(subject, pattern)):
                return self._match(sign, self._value(subject, scope), pattern)
            case Call(function=function, arguments=arguments):
                return FUNCTIONS[function](*(self._value(argument, scope) for argument in arguments))
        raise TypeError(node)

    def _match(self, sign: str, subject: Value, pattern: Node) -> Value:
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise Usage(f"{self.where}: the pattern of {sign.upper()} has to be a text in quotes")
        blind = sign in ("ilike", "~*", "!~*")
        if sign in ("like", "ilike"):
            return pc.match_like(subject, pattern.value, ignore_case=blind)
        try:
            found = pc.match_substring_regex(subject, pattern.value, ignore_case=blind)
        except pa.ArrowInvalid as error:
            raise Usage(f"{self.where}: {pattern.value!r} is not a regular expression") from error
        return pc.invert(found) if sign.startswith("!") else found


def _type(kind: str, where: str) -> pa.DataType:
    name, _, sizes = kind.partition("(")
    if name in ("numeric", "decimal") and sizes:
        precision, _, scale = sizes.rstrip(")").partition(",")
        return pa.decimal128(int(precision), int(scale or 0))
    if name not in _TYPES:
        raise Usage(f"{where}: unknown type {name!r}", "one of: " + ", ".join(sorted(_TYPES)))
    return _TYPES[name]


# Understood by `Expression` itself.
_SPECIAL = {"cast", "like", "ilike", "~", "~*", "!~", "!~*"}


def _check_functions(node: Node, where: str) -> None:
    if not isinstance(node, Call):
        return
    if node.function not in FUNCTIONS and node.function not in _SPECIAL:
        words = sorted(name for name in FUNCTIONS if name.replace("_", "").isalpha() and name not in _OPERATORS)
        near = difflib.get_close_matches(node.function, words, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(words)
        raise Usage(f"{where}: unknown function {node.function!r}", hint)
    for argument in node.arguments:
        _check_functions(argument, where)


_OPERATORS = {"and", "or", "not", "in", "case", "negate"}
