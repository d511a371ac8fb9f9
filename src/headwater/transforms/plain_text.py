"""JSON strings of a column as the texts they stand for."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats.text import Slot, Template, Text
from headwater.transforms.events_model import Node


def unquoted(node: Node) -> pa.StringArray:
    """The texts of a string column; null where there is none and nothing stands for it."""
    values, slot = node.values, node.slot("")
    if values.state.size and (slot.null != "null" or (values.state > 1).any()):
        values = Template((Slot("", slot.null, slot.unavailable),), "").fill([values], len(values))
    quoted = values.to_arrow()
    quoted = pc.if_else(pc.equal(quoted, "null"), pa.scalar(None, pa.string()), quoted)
    if not _escaped(values):
        return pc.utf8_slice_codeunits(quoted, 1, -1)
    distinct = quoted.dictionary_encode()
    plain = pa.array([json.loads(text) for text in distinct.dictionary.to_pylist()], pa.string())
    return plain.take(distinct.indices)


def _escaped(values: Text) -> bool:
    return bool((values.data == ord("\\")).any())


def shown(node: Node) -> pa.StringArray:
    """Any column as text: strings without quotes, the rest as their JSON."""
    if node.schema.type == "string":
        return unquoted(node)
    text = node.values.to_arrow()
    return pc.if_else(pc.equal(text, "null"), pa.scalar(None, pa.string()), text)
