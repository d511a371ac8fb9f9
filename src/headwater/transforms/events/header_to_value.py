"""`header_to_value`: headers as fields of the value (Debezium's HeaderToValue)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.errors import Usage
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform
from headwater.transforms.events_model import Events, Node, Struct


@dataclass(frozen=True, kw_only=True)
class HeaderToValueOptions(EventOptions):
    """What a user may say about headers that become fields."""

    headers: list[str] = option(help="names of headers")
    fields: list[str] = option(help="the field for each of them; dots lead into structs")
    operation: str = option("copy", help="copy, or move: the header is gone then", choices=["copy", "move"])


class HeaderToValue(EventTransform):
    """Fields from headers; a header that an event does not have gives no field."""

    type: ClassVar[str] = "header_to_value"
    options_class = HeaderToValueOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"io.debezium.transforms.HeaderToValue": {}}
    options: HeaderToValueOptions

    def __init__(self, options: HeaderToValueOptions) -> None:
        self.options = options
        if len(options.headers) != len(options.fields):
            raise Usage("header_to_value: as many fields as headers are wanted")

    def apply(self, events: Events) -> Iterable[Events]:
        value = events.value
        if not isinstance(value, Struct):
            return [events]
        moved = []
        for header, field in zip(self.options.headers, self.options.fields, strict=True):
            node = next((node for name, node in events.headers if name == header), None)
            if node is not None:
                value = _with(value, field.split("."), node)
                moved.append(header)
        headers = events.headers
        if self.options.operation == "move":
            headers = tuple(pair for pair in headers if pair[0] not in moved)
        return [replace(events, value=value, headers=headers)]


def _with(value: Struct, path: list[str], node: Node) -> Struct:
    if len(path) == 1:
        return value.with_field(path[0], node)
    inner = value.get(path[0])
    if not isinstance(inner, Struct):
        raise Usage(f"header_to_value: the value has no struct {path[0]!r}")
    return value.with_field(path[0], _with(inner, path[1:], node))
