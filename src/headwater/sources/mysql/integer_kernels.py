"""Integers in bytes, lowest byte first: compiled into the kernels that call them."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, inline="always")
def u16(data, at):
    """Two bytes."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8


@njit(nogil=True, cache=True, inline="always")
def u24(data, at):
    """Three bytes."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16


@njit(nogil=True, cache=True, inline="always")
def u32(data, at):
    """Four bytes."""
    return u16(data, at) | u16(data, at + 2) << 16


@njit(nogil=True, cache=True, inline="always")
def u48(data, at):
    """Six bytes."""
    return u32(data, at) | u16(data, at + 4) << 32


@njit(nogil=True, cache=True, inline="always")
def i64(data, at):
    """Eight bytes, signed."""
    return u32(data, at) | u32(data, at + 4) << 32
