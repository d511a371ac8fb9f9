"""A table's row as a JSON object: which columns, in which form, and what stands where a value is missing.

Database-neutral: a source supplies one ColumnForm per column (`sources/*/debezium.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headwater.errors import Unrepresentable
from headwater.formats import kernels
from headwater.formats.connect import Schema, quote, struct
from headwater.formats.text import Mask, Slot, Template, Text, null_state
from headwater.formats.writers import Writer

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnForm:
    """How one column appears in events."""

    column: str
    # Its place in the row's Arrow struct.
    place: int
    # The field's name, after adjustment.
    name: str
    schema: Schema
    write: Writer
    # JSON text of the type's zero, for a NOT NULL column whose value the log did not carry.
    zero: str
    # JSON text of the placeholder for a value the log left out; None when the type has no such form.
    unavailable: str | None = None

    @property
    def missing(self) -> str:
        """What stands for null: the default if there is one (JsonConverter's replace.null.with.default), the
        zero when the field is required."""
        if self.schema.default is not None:
            return self.schema.default
        return "null" if self.schema.optional else self.zero


@dataclass(frozen=True)
class RowForm:
    """A struct of columns."""

    table: str
    columns: tuple[ColumnForm, ...]
    # fail, warn or skip: event.converting.failure.handling.mode
    on_failure: str = "fail"

    def schema(self, name: str, optional: bool = False) -> Schema:
        return struct(name, [(form.name, form.schema) for form in self.columns], optional=optional)

    @cached_property
    def template(self) -> Template:
        slots = []
        for i, form in enumerate(self.columns):
            before = ("{" if i == 0 else ",") + quote(form.name) + ":"
            slots.append(Slot(before, form.missing, form.unavailable or form.missing))
        return Template(tuple(slots), "}" if slots else "{}")

    def text(self, rows: pa.StructArray, unchanged: Mapping[str, Mask] | None = None) -> Text:
        """One JSON object per row; rows that are null are in the state NULL."""
        return self.template.fill(self.texts(rows, unchanged), len(rows)).with_state(null_state(rows))

    def texts(self, rows: pa.StructArray, unchanged: Mapping[str, Mask] | None = None) -> list[Text]:
        """The columns of `text`, each by itself."""
        return [self._column(form, rows, unchanged or {}) for form in self.columns]

    def _column(self, form: ColumnForm, rows: pa.StructArray, unchanged: Mapping[str, Mask]) -> Text:
        text = form.write(rows.field(form.place))
        left_out = unchanged.get(form.column)
        if left_out is not None:
            kind = kernels.FAILED if form.unavailable is None else kernels.UNAVAILABLE
            text = text.marked(left_out, kind)
        if text.state.size and (text.state == kernels.FAILED).any():
            self._settle(form, text.rows(kernels.FAILED), rows)
        return text

    def _settle(self, form: ColumnForm, failed: Mask, rows: pa.StructArray) -> None:
        """Values that have no representation: an error, or null in their place; what a null row holds is nothing."""
        if rows.null_count:
            failed = failed & (null_state(rows) == kernels.VALUE)
        if not failed.any():
            return
        if self.on_failure == "fail":
            raise self._failure(form)
        if self.on_failure == "warn":
            count = int(failed.sum())
            LOG.warning("%s.%s: %d values without a representation are now null", self.table, form.column, count)

    def _failure(self, form: ColumnForm) -> Unrepresentable:
        kind = form.schema.name or form.schema.type
        return Unrepresentable(
            f"{self.table}.{form.column} has a value that {kind} cannot represent",
            "to put null in its place, as Debezium does by default: event.converting.failure.handling.mode: warn",
            "or choose another form for the type: decimal.handling.mode, time.precision.mode, column.exclude.list",
        )


def key_form(row: RowForm, columns: Sequence[str]) -> RowForm | None:
    """The key's struct, in key order; None when there is no key."""
    if not columns:
        return None
    by_name = {form.column: form for form in row.columns}
    return RowForm(row.table, tuple(by_name[name] for name in columns), row.on_failure)
