"""`filter`: keeps the changes for which a SQL condition is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headwater.event import ChangeBatch
from headwater.options import option
from headwater.transforms.base import ChangeOptions, ChangeTransform
from headwater.transforms.evaluate import Expression, Scope


@dataclass(frozen=True, kw_only=True)
class FilterOptions(ChangeOptions):
    """What a user may say about a filter."""

    condition: str = option(help="SQL condition; only changes for which it is TRUE are kept, NULL is not TRUE")


class Filter(ChangeTransform):
    """Drops changes. A condition on `after.x` alone drops every delete: say `op = 'd' or …` to keep them."""

    type: ClassVar[str] = "filter"
    options_class = FilterOptions
    options: FilterOptions

    def __init__(self, options: FilterOptions) -> None:
        self.options = options
        self.expression = Expression(options.condition, "filter: condition")

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        keep = self.expression.truth(Scope(batch))
        return batch if keep.true_count == len(batch) else batch.filter(keep)
