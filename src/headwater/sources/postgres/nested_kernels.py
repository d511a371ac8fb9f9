"""Kernels that take the texts of arrays and hstores apart, beside the plain twin of each.

They find elements and undo quotes and escapes; what an element means is left to its own type's parser.
Conventions as in `value_kernels.py`.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np
from numba import njit

from headwater.compiled import kernel
from headwater.sources.postgres.value_kernels import VALUES

_QUOTE, _BACKSLASH, _OPEN, _CLOSE = 34, 92, 123, 125


@njit(nogil=True)
def _copy_quoted(data, at, end, out, written):
    """Copy the text behind the quote at `at` - 1 without its escapes; where it ends (behind the closing
    quote; -1: nowhere) and where the copy ends."""
    while at < end and data[at] != _QUOTE:
        if data[at] == _BACKSLASH:
            at += 1
            if at == end:
                return np.int64(-1), written
        out[written] = data[at]
        written += 1
        at += 1
    return (at + 1 if at < end else np.int64(-1)), written


@njit(nogil=True, inline="always")
def _is_null(data, at, stop):
    """An unquoted NULL, in any case, as the server reads it."""
    return (
        stop - at == 4
        and data[at] | 32 == 110
        and data[at + 1] | 32 == 117
        and data[at + 2] | 32 == 108
        and data[at + 3] | 32 == 108
    )


@kernel(f"i8({VALUES}, u1)")
def count_elements(data, starts, lengths, delimiter):
    """An upper bound of the elements of all arrays together: delimiters, and one more for each array."""
    count = np.int64(0)
    for i in range(lengths.size):
        if lengths[i] > 2:
            count += 1
            for at in range(starts[i], starts[i] + lengths[i]):
                count += data[at] == delimiter
    return count


@kernel(f"i8({VALUES}, u1, i4[::1], i8[::1], i4[::1], u1[::1])")
def parse_array(data, starts, lengths, delimiter, offsets, out_starts, out_lengths, out):
    """One-dimensional arrays `{1,NULL,"a \\"b\\""}`: array i has elements offsets[i]:offsets[i + 1].

    Their texts stand in `out` at out_starts, out_lengths (-1: NULL). A second dimension and explicit lower
    bounds (`[2:3]={…}`) are refused."""
    count = np.int64(0)
    written = np.int64(0)
    offsets[0] = 0
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length >= 0:
            at = starts[i]
            end = at + length - 1
            if length < 2 or data[at] != _OPEN or data[end] != _CLOSE:
                return np.int64(i)
            at += 1
            more = at < end
            while more:
                begin = written
                null = False
                if at < end and data[at] == _QUOTE:
                    at, written = _copy_quoted(data, at + 1, end, out, written)
                    if at < 0:
                        return np.int64(i)
                else:
                    first = at
                    while at < end and data[at] != delimiter:
                        letter = data[at]
                        # Unquoted, these would mean another dimension or a text that no server writes.
                        if letter in (_OPEN, _CLOSE, _QUOTE, _BACKSLASH):
                            return np.int64(i)
                        out[written] = letter
                        written += 1
                        at += 1
                    if at == first:
                        return np.int64(i)
                    null = _is_null(data, first, at)
                out_starts[count] = begin
                out_lengths[count] = -1 if null else written - begin
                count += 1
                more = at < end
                if more:
                    if data[at] != delimiter:
                        return np.int64(i)
                    at += 1
        offsets[i + 1] = count
    return np.int64(-1)


def array_plain(text, delimiter=","):
    """`parse_array` of one text: a list of texts and None."""
    if len(text) < 2 or text[0] != "{" or text[-1] != "}":
        raise ValueError("not an array")
    body, at, elements = text[1:-1], 0, []
    while body and at <= len(body):
        if body.startswith('"', at):
            element, at = _quoted_plain(body, at)
        else:
            stop = body.find(delimiter, at)
            stop = len(body) if stop < 0 else stop
            word, at = body[at:stop], stop
            if not word or any(letter in '{}"\\' for letter in word):
                raise ValueError("not a one-dimensional array")
            element = None if word.isascii() and word.upper() == "NULL" else word
        elements.append(element)
        if at < len(body) and body[at] != delimiter:
            raise ValueError("no delimiter between elements")
        at += 1
    return elements


def _quoted_plain(text, at):
    """The text in quotes at `at`, without its escapes, and where it ends."""
    letters = []
    at += 1
    while text[at : at + 1] != '"':
        if text[at : at + 1] == "\\":
            at += 1
        if at >= len(text):
            raise ValueError("a quote does not end")
        letters.append(text[at])
        at += 1
    return "".join(letters), at + 1


@kernel(f"i8({VALUES})")
def count_pairs(data, starts, lengths):
    """An upper bound of the pairs of all hstores together: one for each `=>`."""
    count = np.int64(0)
    for i in range(lengths.size):
        for at in range(starts[i] + 1, starts[i] + lengths[i]):
            count += data[at] == 62 and data[at - 1] == 61
    return count


@kernel(f"i8({VALUES}, i4[::1], i8[::1], i4[::1], i8[::1], i4[::1], u1[::1])")
def parse_hstore(data, starts, lengths, offsets, key_starts, key_lengths, item_starts, item_lengths, out):
    """hstores `"a"=>"1", "b"=>NULL`: hstore i has pairs offsets[i]:offsets[i + 1].

    The texts of keys and items stand in `out` at their starts and lengths (-1: NULL)."""
    count = np.int64(0)
    written = np.int64(0)
    offsets[0] = 0
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length > 0:
            at = starts[i]
            end = at + length
            more = True
            while more:
                begin = written
                if at == end or data[at] != _QUOTE:
                    return np.int64(i)
                at, written = _copy_quoted(data, at + 1, end, out, written)
                if at < 0 or end - at < 4 or data[at] != 61 or data[at + 1] != 62:
                    return np.int64(i)
                key_starts[count] = begin
                key_lengths[count] = written - begin
                at += 2
                item_starts[count] = written
                if data[at] == _QUOTE:
                    begin = written
                    at, written = _copy_quoted(data, at + 1, end, out, written)
                    if at < 0:
                        return np.int64(i)
                    item_lengths[count] = written - begin
                elif end - at >= 4 and _is_null(data, at, at + 4):
                    at += 4
                    item_lengths[count] = -1
                else:
                    return np.int64(i)
                count += 1
                more = at < end
                if more:
                    if end - at < 2 or data[at] != 44 or data[at + 1] != 32:
                        return np.int64(i)
                    at += 2
        offsets[i + 1] = count
    return np.int64(-1)


def hstore_plain(text):
    """`parse_hstore` of one text: a list of (key, item or None)."""
    pairs, at = [], 0
    while text and at <= len(text):
        if text[at : at + 1] != '"':
            raise ValueError("a key is quoted")
        key, at = _quoted_plain(text, at)
        if text[at : at + 2] != "=>" or at + 4 > len(text):
            raise ValueError("no => behind a key")
        at += 2
        if text[at] == '"':
            item, at = _quoted_plain(text, at)
        elif text[at : at + 4].upper() == "NULL":
            item, at = None, at + 4
        else:
            raise ValueError("an item is quoted or NULL")
        pairs.append((key, item))
        if at < len(text) and text[at : at + 2] != ", ":
            raise ValueError("no comma between pairs")
        at += 2 if at < len(text) else 1
    return pairs
