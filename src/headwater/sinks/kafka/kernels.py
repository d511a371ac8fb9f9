"""Kafka's own way from a key to a partition, compiled. `plain.py` holds the slow twin."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
LONGS = types.Array(types.int64, 1, "C", readonly=True)
PARTITIONS = types.Array(types.int32, 1, "C")


@njit(types.void(BYTES, LONGS, types.int64, PARTITIONS), nogil=True, cache=True)
def key_partitions(data, offsets, count, out):
    """murmur2 of every key, without the sign, modulo `count`: what Kafka's Java producer does.

    (org.apache.kafka.common.utils.Utils.murmur2; 32-bit arithmetic throughout.)"""
    m = np.uint32(0x5BD1E995)
    for row in range(out.size):
        begin, end = offsets[row], offsets[row + 1]
        length = end - begin
        h = np.uint32(0x9747B28C) ^ np.uint32(length)
        at = begin
        while end - at >= 4:
            k = (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            k = np.uint32(k * m)
            k ^= k >> np.uint32(24)
            k = np.uint32(k * m)
            h = np.uint32(h * m)
            h ^= k
            at += 4
        rest = end - at
        if rest == 3:
            h ^= np.uint32(data[at + 2]) << np.uint32(16)
        if rest >= 2:
            h ^= np.uint32(data[at + 1]) << np.uint32(8)
        if rest >= 1:
            h ^= np.uint32(data[at])
            h = np.uint32(h * m)
        h ^= h >> np.uint32(13)
        h = np.uint32(h * m)
        h ^= h >> np.uint32(15)
        out[row] = np.int64(h & np.uint32(0x7FFFFFFF)) % count
