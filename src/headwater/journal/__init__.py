"""The journal: an append-only, segmented, checksummed store of raw frames, indexed by position and table.

It makes Spark's re-reads deterministic, keeps memory flat under a giant transaction and lets several
consumers go at their own pace. Raw in, raw out: a decoder bug is cured by reading again.
"""

from headwater.journal.journal import Journal, SourceFiles
from headwater.journal.reader import JournalReader
from headwater.journal.storage import BlockRef
from headwater.journal.writer import JournalFull, JournalWriter, Limits

__all__ = ["BlockRef", "Journal", "JournalFull", "JournalReader", "JournalWriter", "Limits", "SourceFiles"]
