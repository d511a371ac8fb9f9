"""Expressions over a batch of changes, evaluated by Arrow a column at a time, with SQL's three-valued logic.

What can be named: `op`, `before.x`, `after.x`, `x` alone (the row after; of a delete, the row before),
`source.schema`, `source.table`, `source.db`, `source.lsn`, `source.txId`, `source.ts_ms`, `topic`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop, Usage
from headwater.event import ChangeBatch
from headwater.formats.envelope import from_before
from headwater.transforms.syntax import Call, Literal, Name, Node, parse

Value = Any  # pa.Array or pa.Scalar: every function of pyarrow.compute takes both

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
                return pa.scalar(value)
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


def _aligned(left: Value, right: Value) -> tuple[Value, Value]:
    """A constant takes the type of what it is compared with: '2024-01-01' beside a date is a date."""
    for one, other, swap in ((left, right, False), (right, left, True)):
        if isinstance(one, pa.Scalar) and not isinstance(other, pa.Scalar) and one.type != other.type:
            nothing = not one.is_valid
            text = pa.types.is_string(one.type) and not pa.types.is_string(other.type)
            number = pa.types.is_decimal(one.type) and pa.types.is_floating(other.type)
            if nothing or text or number:
                cast = pa.scalar(None, other.type) if nothing else one.cast(other.type)
                return (other, cast) if swap else (cast, other)
    return left, right


def _comparing(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return lambda left, right: function(*_aligned(left, right))


def _is_distinct(left: Value, right: Value) -> Value:
    left, right = _aligned(left, right)
    same = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.invert(pc.or_(same, both_null))


def _in(subject: Value, *choices: Value) -> Value:
    """As SQL: a null among the choices makes a miss unknown."""
    found = FUNCTIONS["="](subject, choices[0])
    for choice in choices[1:]:
        found = pc.or_kleene(found, FUNCTIONS["="](subject, choice))
    return found


def _case(*arms: Value) -> Value:
    value = arms[-1]
    for i in range(len(arms) - 3, -1, -2):
        then, value = _aligned_branches(arms[i + 1], value)
        value = pc.if_else(pc.fill_null(arms[i], False), then, value)
    return value


def _aligned_branches(left: Value, right: Value) -> tuple[Value, Value]:
    """NULL has every type."""
    if isinstance(left, pa.Scalar) and not left.is_valid:
        return pa.scalar(None, right.type), right
    if isinstance(right, pa.Scalar) and not right.is_valid:
        return left, pa.scalar(None, left.type)
    return left, right


def _coalesce(*values: Value) -> Value:
    known = [value for value in values if not (isinstance(value, pa.Scalar) and not value.is_valid)]
    return pc.coalesce(*known) if known else values[0]


def _text(value: Value) -> Value:
    return value if pa.types.is_string(value.type) else pc.cast(value, pa.string())


def _concat(*values: Value) -> Value:
    return pc.binary_join_element_wise(*map(_text, values), "")


def _substring(text: Value, begin: Value, length: Value | None = None) -> Value:
    start = max(0, begin.as_py() - 1)
    return pc.utf8_slice_codeunits(text, start, None if length is None else start + length.as_py())


def _nullif(left: Value, right: Value) -> Value:
    return pc.if_else(pc.fill_null(_comparing(pc.equal)(left, right), False), pa.scalar(None, left.type), left)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "=": _comparing(pc.equal),
    "<>": _comparing(pc.not_equal),
    "<": _comparing(pc.less),
    "<=": _comparing(pc.less_equal),
    ">": _comparing(pc.greater),
    ">=": _comparing(pc.greater_equal),
    "+": _comparing(pc.add_checked),
    "-": _comparing(pc.subtract_checked),
    "*": _comparing(pc.multiply_checked),
    "/": _comparing(pc.divide_checked),
    "%": lambda left, right: pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right)),
    "negate": pc.negate_checked,
    "||": _concat,
    "is null": pc.is_null,
    "is true": lambda value: pc.fill_null(value, False),
    "is false": lambda value: pc.fill_null(pc.invert(value), False),
    "is distinct": _is_distinct,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": pc.utf8_length,
    "trim": pc.utf8_trim_whitespace,
    "concat": _concat,
    "substring": _substring,
    "starts_with": lambda text, prefix: pc.starts_with(text, prefix.as_py()),
    "replace": lambda text, old, new: pc.replace_substring(text, old.as_py(), new.as_py()),
    "abs": pc.abs,
    "round": pc.round,
}
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
