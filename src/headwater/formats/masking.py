"""Hiding values: asterisks, salted hashes and truncation over whole Arrow columns.

Knows nothing of tables or options; `column_options.py` applies it to events, `transforms/changes/mask.py` to changes.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Usage
from headwater.formats.text import bytes_of

# The header of a Java object stream that holds one string: magic, version, TC_STRING (TC_LONGSTRING from 64 KB on).
_STREAM = b"\xac\xed\x00\x05"
_SHORT, _LONG = b"\x74", b"\x7c"
# First byte of a character outside of the basic plane, which is two units in UTF-16.
_TWO_UNITS = 0xF0


def asterisks(array: pa.Array, count: int) -> pa.StringArray:
    """The same text in every row, nulls included: not even whether there was a value shows."""
    return pa.repeat(pa.scalar("*" * count, pa.string()), len(array))


def check_algorithm(name: str, where: str) -> str:
    """The algorithm as hashlib spells it; Java's names (SHA-256) are taken."""
    plain = re.sub(r"^sha-(?=\d)", "sha", name.lower()).replace("sha3-", "sha3_")
    if plain not in hashlib.algorithms_guaranteed or plain.startswith("shake"):
        raise Usage(f"{where}: no hash algorithm {name!r}", "for example SHA-256, SHA-512, SHA3-256, MD5")
    return plain


def hashed(array: pa.Array, algorithm: str, salt: str, length: int | None = None, *, java: bool = False) -> pa.Array:
    """Lower-case hexadecimal digest of salt and text, cut to `length`; null stays null.

    `java` frames the text as Java serialises a string: Debezium's first version of this option."""
    distinct = array.dictionary_encode()
    digests = [
        hashlib.new(
            algorithm, salt.encode() + (java_string(text) if java else text.encode()), usedforsecurity=False
        ).hexdigest()[:length]
        for text in distinct.dictionary.to_pylist()
    ]
    return pa.array(digests, pa.string()).take(distinct.indices)


def java_string(text: str) -> bytes:
    """A string as java.io.ObjectOutputStream writes it."""
    # "Modified UTF-8": NUL as two bytes, and each half of a surrogate pair by itself.
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), dtype=">u2")
    body = b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units.tolist())
    if len(body) < 1 << 16:
        return _STREAM + _SHORT + len(body).to_bytes(2, "big") + body
    return _STREAM + _LONG + len(body).to_bytes(8, "big") + body


def truncated(array: pa.Array, length: int) -> pa.Array:
    """At most `length` UTF-16 units of a text, or bytes of a binary value.

    A character whose second unit no longer fits is left out: half of it is no text."""
    if pa.types.is_binary(array.type):
        return pc.binary_slice(array, 0, length)
    data, offsets = bytes_of(array)
    if not (data[offsets[0] : offsets[-1]] >= _TWO_UNITS).any():
        return pc.utf8_slice_codeunits(array, 0, length)
    distinct = array.dictionary_encode()
    cut = [_units(text, length) for text in distinct.dictionary.to_pylist()]
    return pa.array(cut, pa.string()).take(distinct.indices)


def _units(text: str, length: int) -> str:
    return text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore")
