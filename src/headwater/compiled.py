"""Kernels: plain Python functions compiled by Numba, once per installation.

They are in modules whose names end in `kernels`. Importing one compiles it; `python -m headwater.compiled` compiles all
of them ahead, on all cores, or those of the packages it is given.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import importlib
import multiprocessing
import os
import stat
import sys
import tempfile
from pathlib import Path

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


def kernel_modules(packages=()):
    """Names of the modules with kernels, in these packages or in all, the longest ones first."""
    root = Path(__file__).parent
    files = sorted(root.rglob("*kernels.py"), key=lambda file: -file.stat().st_size)
    names = [".".join(file.relative_to(root.parent).with_suffix("").parts) for file in files]
    return [name for name in names if not packages or name.startswith(tuple(f"{each}." for each in packages))]


def _compile(module):
    importlib.import_module(module)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool() as processes:
        processes.map(_compile, kernel_modules(sys.argv[1:]), chunksize=1)
