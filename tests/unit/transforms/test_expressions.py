"""SQL expressions over changes: what they mean, and that nothing else gets through."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.formats.change_builder import batch, change, order

from headwater.errors import Stop, Usage
from headwater.transforms.evaluate import Expression, Scope

CHANGES = batch(
    [
        change("c", order(1)),
        change("u", order(2, name=None), order(2)),
        change("d", None, order(3, price=Decimal("99.50"))),
    ]
)


def values(text: str) -> Any:
    found = Expression(text, "filter").evaluate(Scope(CHANGES))
    return found.to_pylist() if hasattr(found, "to_pylist") else found.as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op = 'c'", [True, False, False]),
        ("after.price > 1", [True, True, None]),
        ("price >= 99.5", [False, False, True]),
        ("name is null or op = 'd'", [False, True, True]),
        ("after.id in (1, 3)", [True, False, None]),
        ("not after.id in (1, null)", [False, None, None]),
        ("after.id not in (1, 2)", [False, False, None]),
        ("name like 'order%' and id between 1 and 3", [True, None, True]),
        ("made >= '2024-01-01T00:00:00Z'", [True, True, True]),
        ("source.table = 'orders' and source.schema <> 'other'", True),
        ("case op when 'c' then 'new' when 'd' then 'gone' end", ["new", None, "gone"]),
        ("coalesce(name, 'x') || ':' || id", ["order 1:1", "x:2", "order 3:3"]),
        ("after.name is distinct from before.name", [True, True, True]),
        ("id = -1 or -id < -2", [False, False, True]),
        ("count % 2 = 1 and count / 2 = 3", [True, True, True]),
        ("cast(count as text) = '7' and count::bigint + 1 = 8", [True, True, True]),
        ("lower(name) ~ '^ord' and name !~ 'x'", [True, None, True]),
        ("upper(substring(name, 1, 5)) = 'ORDER'", [True, None, True]),
        ("(op = 'u') is not true", [True, False, True]),
        ('value.after."name" is not null', [True, False, False]),
    ],
)
def test_value(text: str, expected: Any) -> None:
    assert values(text) == expected


def test_unknown_is_not_true() -> None:
    kept = Expression("after.name <> 'order 9'", "filter").truth(Scope(CHANGES))
    assert kept.to_pylist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("__import__('os')", "unknown function '__import__'"),
        ("lowr(name) = 'a'", "unknown function 'lowr'"),
        ("after.nam = 'x'", "has no column 'nam'"),
        ("op =", "stands where a value is wanted"),
        ("op = 'c' op", "is not expected here"),
        ("name; drop table x", "cannot be read here"),
        ("name", "not a condition"),
        ("name > 3", "do not go together"),
        ("name like op", "has to be a text in quotes"),
        ("lower(name, name) = 'a'", "wrong number of arguments"),
        ("cast(name as wombat) is null", "unknown type 'wombat'"),
        ("name ~ '('", "is not a regular expression"),
        ("", "is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(Usage, match="filter: ") as error:
        Expression(text, "filter").truth(Scope(CHANGES))
    assert says in str(error.value)


def test_a_failing_cast_stops_and_does_not_show_the_value() -> None:
    with pytest.raises(Stop) as error:
        values("cast(name as int) = 1")
    assert "order 1" not in str(error.value)


def test_a_value_that_the_log_left_out_is_not_taken_for_null() -> None:
    changed = batch([change("u", order(1, name=None), unchanged=["name"])])
    with pytest.raises(Stop, match="does not carry 'name'"):
        Expression("after.name is null", "filter").truth(Scope(changed))


@given(st.text(max_size=40))
@example("9223372036854775808")
@example("9" * 80)
def test_any_text_is_a_value_or_a_usage_error(text: str) -> None:
    try:
        Expression(text, "filter").evaluate(Scope(CHANGES))
    except (Usage, Stop):
        return
