"""A pipeline file: read, interpolated, checked; what is wrong is named and no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import Usage
from headwater.pipeline.definition import build_definition, interpolate, read_definition

FILE = """
name: my-Shop
source:
  type: postgres
  url: postgresql://cdc:${SHOP_PASSWORD}@127.0.0.1:5432/shop
  table.include.list: public.orders,public.items
sinks:
  - {type: delta, path: lake}
  - {type: delta, path: lake2, name: second}
  - {type: delta, path: lake3}
spark: {spark.master: "local[2]", spark.ui.enabled: false}
"""


@pytest.fixture
def given() -> dict:
    return {
        "name": "shop",
        "source": {"type": "postgres", "url": "postgresql://u@h/d"},
        "sinks": [{"type": "delta", "path": "lake"}],
    }


def write(folder: Path, text: str) -> Path:
    path = folder / "shop.yaml"
    path.write_text(text)
    return path


def test_a_file_becomes_a_definition(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "canary")
    made = read_definition(write(tmp_path, FILE))

    assert made.name == "my-Shop"
    assert made.source.type == "postgres"
    assert made.source.options.url.reveal() == "postgresql://cdc:canary@127.0.0.1:5432/shop"
    assert made.source.options.table_include_list == ["public.orders", "public.items"]
    # A slot allows neither hyphen nor capital.
    assert made.source.options.slot == "headwater_my_shop"
    assert list(made.sinks) == ["delta", "second", "delta-2"]
    assert made.state == Path(".headwater/my-Shop")
    assert made.journal == ".headwater/my-Shop/journal"
    assert made.spark == {"spark.master": "local[2]", "spark.ui.enabled": "false"}
    assert "canary" not in repr(made.source.options)


def test_environment_and_files_are_filled_in_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PART", "b")
    (tmp_path / "secret").write_text("c\n")
    value = {
        "x": ["a${PART}", {"y": f"${{file:{tmp_path / 'secret'}}}${{PART}}"}],
        "n": 5,
        "z": None,
        "plain": "$PART {}",
    }
    assert interpolate(value) == {"x": ["ab", {"y": "cb"}], "n": 5, "z": None, "plain": "$PART {}"}


def test_what_cannot_be_filled_in_is_named(tmp_path):
    with pytest.raises(Usage, match=r"NO_SUCH_THING.*not set"):
        interpolate("${NO_SUCH_THING}")
    with pytest.raises(Usage, match="No such file"):
        interpolate(f"${{file:{tmp_path / 'absent'}}}")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(Usage, match="not UTF-8"):
        interpolate(f"${{file:{tmp_path / 'binary'}}}")


@pytest.mark.parametrize(
    "text", ["a: [1", "name: 'x", "password: canary: x", "\tname: x", "a: !!python/object:os.system {}"]
)
def test_a_file_that_is_not_yaml_is_placed_and_not_quoted(tmp_path, text):
    with pytest.raises(Usage, match=r"is not YAML.*line \d") as refused:
        read_definition(write(tmp_path, text))
    assert "canary" not in f"{refused.value}"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "- a", "just text"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    with pytest.raises(Usage, match="a mapping with name, source and sinks"):
        read_definition(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(Usage, match="cannot read the pipeline file"):
        read_definition(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nmae": "x"}, "unknown option 'nmae'"),
        ({"name": "a b"}, "must consist of letters"),
        ({"name": "../up"}, "must consist of letters"),
        ({"name": None}, "is not a text"),
        ({"sinks": []}, "sinks is empty"),
        ({"sinks": [{"path": "x"}]}, r"sinks\[0\]: a mapping with `type`"),
        ({"sinks": ["delta"]}, r"sinks\[0\]: a mapping with `type`"),
        ({"sinks": [{"type": "delta", "path": "x", "mod": "append"}]}, r"sinks\[0\]: unknown option 'mod'"),
        ({"sinks": [{"type": "dleta"}]}, "did you mean 'delta'"),
        (
            {"sinks": [{"type": "delta", "path": "a/b"}, {"type": "delta", "path": "a/c/../b/", "mode": "append"}]},
            r"sinks\[0\] and sinks\[1\] would both write to .*/a/b",
        ),
        (
            {
                "sinks": [
                    {"type": "kafka", "bootstrap.servers": "a:1,b:2"},
                    {"type": "kafka", "bootstrap.servers": "b:2, a:1", "format": "flat"},
                ]
            },
            r"sinks\[0\] and sinks\[1\] would both write to a:1,b:2",
        ),
        ({"source": {"type": "postgras"}}, "did you mean 'postgres'"),
        ({"source": {"type": "postgres", "slott": "x"}}, "did you mean 'slot'"),
        ({"source": "postgres"}, "source"),
        ({"journal_max_bytes": "lots"}, "a whole number"),
        ({"journal": "ftp://there/it"}, "cannot lie at ftp://"),
        ({"journal": "s3://user:topsecret@bucket/it"}, "not s3://bucket/prefix"),
        ({"journal_seal_bytes": 0}, "journal_seal_bytes"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(given, change, message):
    with pytest.raises(Usage, match=message) as refused:
        build_definition({**given, **change})
    assert refused.value.exit_status == 2


@pytest.mark.parametrize("key", ["name", "source", "sinks"])
def test_what_is_missing_is_named(given, key):
    del given[key]
    with pytest.raises(Usage, match=f"'{key}' is missing"):
        build_definition(given)
