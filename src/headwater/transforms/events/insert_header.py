"""`insert_header`: a constant as one more header (Kafka Connect's InsertHeader)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.formats.connect import STRING, Schema, quote
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform
from headwater.transforms.events_model import Events, constant


@dataclass(frozen=True, kw_only=True)
class InsertHeaderOptions(EventOptions):
    """What a user may say about a header to insert."""

    header: str = option(help="its name")
    value: str = option(help='its text, or a list of texts: ["a", "b"]', aliases=["value.literal"])


class InsertHeader(EventTransform):
    """One more header at the end, on tombstones too."""

    type: ClassVar[str] = "insert_header"
    options_class = InsertHeaderOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"org.apache.kafka.connect.transforms.InsertHeader": {}}
    options: InsertHeaderOptions

    def __init__(self, options: InsertHeaderOptions) -> None:
        self.options = options
        self._text, self._schema = _literal(options.value)

    def apply(self, events: Events) -> Iterable[Events]:
        header = (self.options.header, constant(self._text, len(events), self._schema))
        return [replace(events, headers=(*events.headers, header))]


def _literal(value: str) -> tuple[str, Schema]:
    """JSON text and schema of a constant. Connect reads numbers out of it too; here they stay text."""
    with suppress(ValueError):
        listed = json.loads(value)
        if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
            return "[" + ",".join(map(quote, listed)) + "]", Schema("array", items=STRING)
    return quote(value), STRING
