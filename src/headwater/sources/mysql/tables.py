"""The tables that a log has named so far, by id and by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headwater.event import TableSchema
from headwater.sources.mysql.layout import log_layout


class Tables:
    """The tables that the log has named: for kernels as arrays, for us as schemas. None: not captured."""

    def __init__(self) -> None:
        self.schemas: list[TableSchema | None] = []
        self._names: list[tuple[str, str]] = []
        self._maps: list[bytes] = []
        self._layouts: list[npt.NDArray[np.int32]] = []
        self.ids: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.counts: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._pack()

    def put(self, id: int, name: tuple[str, str], body: bytes, schema: TableSchema | None) -> None:
        """Know this table by this id, and by no other."""
        keep = [n for n, own in enumerate(self._names) if own != name and self.ids[n] != id]
        layout = np.empty(0, np.int32)
        if schema is not None and body:
            layout = log_layout([tuple(column.detail["log"]) for column in schema.columns], schema.table)
        self.schemas = [*(self.schemas[n] for n in keep), schema]
        self._names = [*(self._names[n] for n in keep), name]
        self._maps = [*(self._maps[n] for n in keep), body]
        self._layouts = [*(self._layouts[n] for n in keep), layout]
        self.ids = np.append(self.ids[keep], np.int64(id))
        self.counts = np.append(self.counts[keep], np.int64(0))
        self._pack()

    def expire(self) -> None:
        """Take no table map for a known one: names may have changed, and not every map has them."""
        self._maps = [b""] * len(self._maps)
        self._pack()

    def find(self, name: tuple[str, str]) -> int | None:
        """The place of a table by its name."""
        return self._names.index(name) if name in self._names else None

    def place(self, id: int) -> int | None:
        """The place of a table by its id."""
        found = np.flatnonzero(self.ids == id)
        return int(found[0]) if found.size else None

    def _pack(self) -> None:
        self.maps = np.frombuffer(b"".join(self._maps) or b"\0", dtype=np.uint8).copy()
        self.map_ends = np.cumsum([0, *map(len, self._maps)]).astype(np.int64)
        self.layouts = np.concatenate([np.empty(0, np.int32), *self._layouts])
        self.layout_ends = np.cumsum([0, *(layout.size for layout in self._layouts)]).astype(np.int64)
