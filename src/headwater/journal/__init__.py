"""The journal: an append-only, segmented, checksummed store of raw frames, indexed by position and table.

It makes Spark's re-reads deterministic, keeps memory flat under a giant transaction and lets several
consumers go at their own pace. Raw in, raw out: a decoder bug is cured by reading again.
"""

from headwater.journal.folder import Journal
from headwater.journal.reader import BlockRef, JournalReader
from headwater.journal.writer import JournalFull, JournalWriter

__all__ = ["BlockRef", "Journal", "JournalFull", "JournalReader", "JournalWriter"]
