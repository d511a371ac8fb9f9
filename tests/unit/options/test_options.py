"""Options: every input is understood or refused by name, and no secret shows itself."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.errors import Usage
from headwater.options import Secret, declared, option, parse_options, split_options
from headwater.sources.postgres.capture import captured_tables
from headwater.sources.postgres.options import PostgresOptions
from headwater.tail.process import options_from_wire, options_to_wire


@dataclass(frozen=True)
class Sample:
    path: str = option(help="where")
    slot: str = option("headwater_{name}", help="slot", aliases=["slot.name"])
    rows: int = option(5, help="rows")
    ratio: float = option(0.5, help="ratio")
    wide: bool = option(False, help="wide")
    tables: list[str] = option(["*.*"], help="tables")
    mode: str = option("append", help="mode", choices=["append", "upsert"])
    password: Secret = option(Secret(""), help="password")
    limit: int | None = option(None, help="limit")
    cast: dict[str, str] = option({}, help="casts")
    extra: Mapping[str, Any] = option({}, help="anything")


def parse(**given: Any) -> Sample:
    return parse_options(Sample, {"path": "p", **given}, where="sample", name="shop")


def test_defaults_hold_and_carry_the_pipelines_name():
    assert parse() == Sample("p", slot="headwater_shop")


def test_texts_from_spark_and_debezium_become_values():
    made = parse(rows="7", ratio="1.5", wide="Yes", tables="a.b, c.d ,", limit="3", cast={"a": 1})
    assert (made.rows, made.ratio, made.wide, made.tables) == (7, 1.5, True, ["a.b", "c.d"])
    assert (made.limit, made.cast) == (3, {"a": "1"})


def test_an_alias_is_the_option_and_both_together_are_refused():
    assert parse(**{"slot.name": "s"}).slot == "s"
    with pytest.raises(Usage, match="two names of one option"):
        parse(**{"slot.name": "s", "slot": "t"})


@pytest.mark.parametrize(("key", "near"), [("slotname", "slot.name"), ("table", "tables"), ("pasword", "password")])
def test_an_unknown_key_names_the_nearest(key, near):
    with pytest.raises(Usage, match=f"unknown option '{key}'") as refused:
        parse(**{key: "x"})
    assert f"did you mean '{near}'" in str(refused.value)


def test_a_key_like_no_other_lists_the_known_and_need_not_be_a_text():
    with pytest.raises(Usage, match="known: cast, extra"):
        parse(zzzzzz=1)
    with pytest.raises(Usage, match="unknown option True"):
        parse_options(Sample, {"path": "p", True: 1}, where="sample")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("rows", "many", "a whole number"),
        ("rows", True, "a whole number"),
        ("rows", 2.5, "a whole number"),
        ("rows", None, "a whole number"),
        ("ratio", "half", "a number"),
        ("wide", "perhaps", "true or false"),
        ("slot", ["a"], "a text"),
        ("slot", None, "a text"),
        ("tables", 5, "a list of texts"),
        ("tables", {"a": 1}, "a list of texts"),
        ("extra", "text", "of the right form"),
        ("password", None, "a text"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(key, value, wanted):
    with pytest.raises(Usage, match=f"sample: {key}: .* is not {wanted}"):
        parse(**{key: value})


def test_a_missing_or_unknown_choice_is_named():
    with pytest.raises(Usage, match=r"'path' is missing \(where\)"):
        parse_options(Sample, {}, where="sample")
    with pytest.raises(Usage, match="did you mean 'upsert'"):
        parse(mode="upsrt")


def test_a_list_default_is_not_shared():
    parse().tables.append("x")
    assert parse().tables == ["*.*"]


def test_keys_are_split_among_classes_and_strangers_refused():
    @dataclass(frozen=True)
    class Other:
        colour: str = option("red", help="colour")

    assert split_options({"path": "p", "colour": "blue"}, Sample, Other, where="x") == [
        {"path": "p"},
        {"colour": "blue"},
    ]
    with pytest.raises(Usage, match="did you mean 'colour'"):
        split_options({"color": "blue"}, Sample, Other, where="x")


def test_a_secret_never_shows_itself(caplog):
    made = parse(password="canary")
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%s %r %s", made, made, [made.password])
    with pytest.raises(TypeError) as unwritten:
        json.dumps(made.password)
    assert "canary" not in f"{made} {made!r} {made.password} {caplog.text} {unwritten.value} {copy.deepcopy(made)!r}"
    assert made.password.reveal() == "canary"
    assert made.password == Secret("canary")
    assert made.password != "canary"


def test_options_survive_the_pipe_to_the_tail():
    made = parse_options(PostgresOptions, {"url": "postgresql://u:canary@h/d", "port": 5}, where="s", name="shop")
    back = options_from_wire(PostgresOptions, json.loads(json.dumps(options_to_wire(made))))
    assert back == made
    assert back.url.reveal() == "postgresql://u:canary@h/d"


def test_every_option_of_postgres_has_a_help_text_and_names_of_its_own():
    found = declared(PostgresOptions)
    names = [name for each in found for name in (each.name, *each.aliases)]
    assert all(each.help for each in found)
    assert len(names) == len(set(names))


# -- which tables ----------------------------------------------------------------------------------


def captured(schema: str, table: str, **given: Any) -> bool:
    return captured_tables(parse_options(PostgresOptions, given, where="source"))(schema, table)


def test_tables_are_chosen_by_patterns():
    assert captured("public", "orders")
    assert captured("public", "orders", tables="public.*")
    assert not captured("other", "orders", tables="public.*")
    assert not captured("public", "orders_log", tables="public.*", exclude="*.*_log")
    assert not captured("public", "Orders", tables="public.orders")


def test_tables_are_chosen_by_debeziums_anchored_expressions():
    given = {"table.include.list": "public\\.(orders|items)"}
    assert captured("public", "ORDERS", **given)
    assert not captured("public", "orders2", **given)
    assert not captured("public", "orders", **{"schema.include.list": "sales"})
    assert not captured("public", "orders", **{"table.exclude.list": "public.orders"})
    assert not captured("public", "orders", **{"schema.exclude.list": "pub.*"})


def test_a_bad_expression_is_a_usage_error():
    with pytest.raises(Usage, match=r"source\.table\.include\.list: not a regular expression"):
        captured("a", "b", **{"table.include.list": "("})
