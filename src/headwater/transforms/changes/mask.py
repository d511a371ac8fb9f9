"""`mask`: hides the values of text columns behind asterisks or a salted hash, or cuts them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import pyarrow as pa

from headwater.errors import Usage
from headwater.event import ChangeBatch, Column, TableSchema
from headwater.formats import masking
from headwater.formats.column_options import ArrayMap
from headwater.options import Secret, option
from headwater.transforms.base import ChangeOptions, ChangeTransform
from headwater.transforms.rewrite import map_columns


@dataclass(frozen=True, kw_only=True)
class MaskOptions(ChangeOptions):
    """What a user may say about a mask."""

    columns: list[str] = option(help="columns to hide, as patterns with *")
    method: str = option(
        "asterisks",
        help="asterisks: a constant; hash: a digest of salt and value; truncate: the first `length` characters",
        choices=["asterisks", "hash", "truncate"],
    )
    length: int = option(10, help="how many asterisks, or characters that stay")
    algorithm: str = option("SHA-256", help="of the hash")
    salt: Secret = option(Secret(""), help="of the hash; without one, guessing values is easy. Use ${ENV}")


class Mask(ChangeTransform):
    """The same rows with less in them. Equal values have equal hashes, so joins still work."""

    type: ClassVar[str] = "mask"
    options_class = MaskOptions
    options: MaskOptions

    def __init__(self, options: MaskOptions) -> None:
        self.options = options
        self.algorithm = masking.check_algorithm(options.algorithm, "mask: algorithm")

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        chosen = [column for column in batch.table.columns if self._hides(column)]
        return map_columns(batch, {column.name: self._map(column, batch.table) for column in chosen})

    def _hides(self, column: Column) -> bool:
        return any(fnmatchcase(column.name, pattern) for pattern in self.options.columns)

    def _map(self, column: Column, table: TableSchema) -> ArrayMap:
        options = self.options
        where = f"mask: {table.table}.{column.name}"
        text = pa.types.is_string(column.arrow)
        if options.method == "truncate":
            if not text and not pa.types.is_binary(column.arrow):
                raise Usage(f"{where} is {column.type}: only text and bytes can be cut", "leave it out: type: columns")
            return lambda array: masking.truncated(array, options.length)
        if not text:
            raise Usage(f"{where} is {column.type}: only text can be masked", "leave it out: type: columns")
        if options.method == "hash":
            return lambda array: masking.hashed(array, self.algorithm, options.salt.reveal())
        if column.name in table.key:
            raise Usage(f"{where} is part of the key: every row would have the same", "hide it by method: hash")
        return lambda array: masking.asterisks(array, options.length)
