"""`headwater import`: a registration becomes a pipeline that can be read, and every setting is accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.cli import main
from headwater.errors import Usage
from headwater.pipeline.connect_import import import_registration
from headwater.pipeline.definition import read_definition
from headwater.transforms.sink import TransformedSink

CONFIG: dict[str, str] = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "database.hostname": "db.example.org",
    "database.port": "5432",
    "database.user": "cdc",
    "database.password": "hunter2",
    "database.dbname": "shop",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "table.include.list": r"public.orders,sales\..*",
    "snapshot.mode": "schema_only",
    "flush.lsn.source": "true",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "column.mask.hash.v2.SHA-256.with.salt.PepperAndSalt": "public.people.email",
    "transforms": "unwrap,shards,gate",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": "op,lsn",
    "transforms.shards.type": "io.debezium.transforms.ByLogicalTableRouter",
    "transforms.shards.topic.regex": "(?<prefix>.*)_[0-9]+",
    "transforms.shards.topic.replacement": "${prefix}",
    "transforms.gate.type": "io.debezium.transforms.Filter",
    "transforms.gate.language": "jsr223.groovy",
    "transforms.gate.condition": "value.op == 'u'\nname: injected",
    "signal.data.collection": "public.signals",
    "signal.kafka.sasl.password": "swordfish",
    "max.batch.size": "2048",
    "made.up.option": "1",
}


def registration(**more: Any) -> str:
    return json.dumps({"name": "shop connector", "config": {**CONFIG, **more}})


def test_the_file_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_CONNECTOR_PASSWORD", "hunter2")
    monkeypatch.setenv("SHOP_CONNECTOR_SALT", "PepperAndSalt")
    file = tmp_path / "shop.yaml"
    file.write_text(import_registration(registration()).to_yaml(), encoding="utf-8")
    definition = read_definition(file)
    options = definition.source.options
    assert (options.host, options.port, options.user, options.database) == ("db.example.org", 5432, "cdc", "shop")
    assert options.password.reveal() == "hunter2"
    assert (options.tables, options.snapshot) == (["public.orders", "sales.*"], "no_data")
    assert (options.slot, options.publication) == ("debezium", "dbz_publication")
    assert definition.debezium.topic_prefix == "shop"
    # The mask holds for a sink of rows as it held for events.
    assert isinstance(definition.sinks["delta"], TransformedSink)


def test_no_secret_is_written_out() -> None:
    imported = import_registration(registration())
    everything = imported.to_yaml() + str(imported.remarks())
    for secret in ("hunter2", "PepperAndSalt", "swordfish"):
        assert secret not in everything


def test_every_setting_is_accounted_for() -> None:
    imported = import_registration(registration())
    text = imported.to_yaml()
    listed = {*imported.no_equivalent, *imported.no_effect}
    assert {"signal.data.collection", "signal.kafka.sasl.password", "made.up.option"} <= set(imported.no_equivalent)
    assert {key for key in CONFIG if key.startswith("transforms.gate")} <= set(imported.no_equivalent)
    assert {"tasks.max", "connector.class", "max.batch.size"} <= set(imported.no_effect)
    assert any("flush.lsn.source is lsn.flush.mode: connector now" in note for note in imported.notes)
    values = ("db.example.org", "5432", "cdc", "shop", "public.orders", "no_data", "add_fields", "(?<prefix>.*)_[0-9]+")
    assert all(value in text for value in values)
    assert not listed & {"database.hostname", "transforms.unwrap.add.fields"}


def test_a_value_with_line_breaks_does_not_leave_its_comment() -> None:
    assert yaml.safe_load(import_registration(registration()).to_yaml())["name"] == "shop-connector"


def test_another_plug_in_s_slot_is_not_taken_over() -> None:
    imported = import_registration(registration(**{"plugin.name": "decoderbufs", "slot.name": "old"}))
    assert "slot" not in imported.source
    assert any("'old'" in note for note in imported.notes)


def test_the_bare_config_is_taken_too() -> None:
    assert import_registration(json.dumps({**CONFIG, "name": "x"})).name == "x"


def test_references_to_the_environment_stay_references() -> None:
    imported = import_registration(registration(**{"database.password": "${env:PGPASS}", "database.user": "${env:U}"}))
    assert (imported.source["password"], imported.source["user"]) == ("${PGPASS}", "${U}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "not JSON"),
        ('{"name": "x", "config": {}}', "connector.class is missing"),
        ("[]", "connector.class is missing"),
        (
            '{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}',
            "known: io.debezium.connector",
        ),
        (
            '{"connector.class": "io.debezium.connector.oracle.OracleConnector"}',
            "there is no source that reads what it reads",
        ),
    ],
)
def test_what_is_no_registration_is_a_usage_error(text: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        import_registration(text)
    assert says in str(error.value)


def test_both_connectors_of_one_source_are_known() -> None:
    config = {"database.hostname": "h", "database.server.id": "7", "topic.prefix": "shop"}
    classes = ("io.debezium.connector.mariadb.MariaDbConnector", "MySqlConnector", "MySql")
    kinds = [import_registration(json.dumps({**config, "connector.class": name})).source["type"] for name in classes]
    assert kinds == ["mariadb", "mysql", "mysql"]


def test_the_verb_writes_the_file_and_says_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, made = tmp_path / "connector.json", tmp_path / "shop.yaml"
    given.write_text(registration(), encoding="utf-8")
    assert main(["import", str(given), "-o", str(made)]) == 0
    assert "made.up.option" in capsys.readouterr().err
    assert made.read_text(encoding="utf-8").startswith("name: shop-connector\n")
    assert main(["import", str(given), "-o", str(made)]) == 2
    capsys.readouterr()
    assert main(["import", str(given), "--json"]) == 0
    assert "made.up.option" in json.loads(capsys.readouterr().out)["no_equivalent"]
