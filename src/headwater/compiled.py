"""Kernels: plain Python functions compiled by Numba, once per installation."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import os
import stat
import tempfile

from numba import config, njit


def kernel(*signatures):
    """njit, compiled once for these signatures and kept on disk: a later process loads it in milliseconds.

    Numba keeps it beside the source, or else under the user's cache folder. Where neither can be written
    (an executor without a home) it goes to a folder under the temporary one that is ours alone, because
    what is kept there is code."""

    def compiled(function):
        try:
            return njit(list(signatures), nogil=True, cache=True)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
        own = _own_folder()
        if own is None:
            return njit(list(signatures), nogil=True)(function)
        config.CACHE_DIR = own
        return njit(list(signatures), nogil=True, cache=True)(function)

    return compiled


def _own_folder():
    """A folder under the temporary one that nobody else can write; None when somebody else has its name."""
    folder = os.path.join(tempfile.gettempdir(), f"headwater-kernels-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if ours else None
