"""`insert_header`: a constant as one more header (Kafka Connect's InsertHeader)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.formats.connect import quote
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform
from headwater.transforms.events_model import Events, constant


@dataclass(frozen=True, kw_only=True)
class InsertHeaderOptions(EventOptions):
    """What a user may say about a header to insert."""

    header: str = option(help="its name")
    value: str = option(help="its text", aliases=["value.literal"])


class InsertHeader(EventTransform):
    """One more header at the end, on tombstones too."""

    type: ClassVar[str] = "insert_header"
    options_class = InsertHeaderOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"org.apache.kafka.connect.transforms.InsertHeader": {}}
    options: InsertHeaderOptions

    def __init__(self, options: InsertHeaderOptions) -> None:
        self.options = options

    def apply(self, events: Events) -> Iterable[Events]:
        header = (self.options.header, constant(quote(self.options.value), len(events)))
        return [replace(events, headers=(*events.headers, header))]
