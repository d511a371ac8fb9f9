"""The functions and operators of expressions, each over whole Arrow columns, with SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Value = Any  # pa.Array or pa.Scalar: every function of pyarrow.compute takes both


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
