"""Spares a Python worker most of its garbage collections.

PySpark collects everything after every task, which looks at every object of every module that we have loaded: 80 ms
on a slow core, during which the worker takes no task. Frozen objects are not looked at."""

from __future__ import annotations

import gc
import sys

_modules = 0


def freeze_modules() -> None:
    """Called at the end of a task: does something when modules have been loaded since the last time."""
    global _modules
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()
