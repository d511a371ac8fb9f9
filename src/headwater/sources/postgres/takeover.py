"""Going on where a connector of Debezium's stopped: what it takes when nothing is said, said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEFAULTS = {
    "slot.name": "debezium",
    "publication.name": "dbz_publication",
    "publication.autocreate.mode": "all_tables",
}


def take_over(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """See `Source.take_over`."""
    given = dict(config)
    plugin = given.pop("plugin.name", "decoderbufs")
    if plugin == "pgoutput":
        return {**_DEFAULTS, **given}, ["stop the connector before this pipeline starts: a slot has one reader"]
    old = given.pop("slot.name", _DEFAULTS["slot.name"])
    return given, [
        f"plugin.name: {plugin} is not read, so its slot {old!r} cannot be gone on with; a new slot of the plug-in"
        " pgoutput is created and tables are loaded anew. Drop the old slot when it is no longer needed"
    ]
