"""Finds plug-ins: a source is a folder under `headwater.sources`, a sink a file under `headwater.sinks`, a transform
a file under `headwater.transforms.changes` or `headwater.transforms.events`.

Others bring theirs as entry points in groups of these names. Only the
plug-in that is asked for gets imported: a pipeline without Kafka needs no Kafka client.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headwater.errors import Usage
from headwater.sinks.base import Sink
from headwater.sources.base import Source


# Every task asks.
@cache
def source_class(kind: str) -> type[Source]:
    """The Source with `type: kind`; a URL scheme of a source is another name for it."""
    if kind not in known("sources"):
        for name in known("sources"):
            found: type[Source] = _find("sources", Source, name)
            if kind in found.schemes:
                return found
    return _find("sources", Source, kind)


def source_for_url(url: str) -> type[Source]:
    """The Source whose `schemes` hold the URL's."""
    scheme = url.partition("://")[0].lower()
    try:
        return source_class(scheme if "://" in url else "")
    except Usage:
        schemes = sorted(scheme for kind in known("sources") for scheme in source_class(kind).schemes)
        raise Usage(
            "this URL does not say which database it is",
            "Begin it with one of: " + ", ".join(f"{scheme}://" for scheme in schemes),
        ) from None


def sink_class(kind: str) -> type[Sink]:
    """The Sink with `type: kind`."""
    return _find("sinks", Sink, kind)


def transform_class(kind: str) -> type[Any]:
    """The ChangeTransform or EventTransform with `type: kind`, or with that class name in Kafka Connect."""
    from headwater.transforms.base import ChangeTransform, EventTransform

    bases: dict[str, type[Any]] = {"transforms.changes": ChangeTransform, "transforms.events": EventTransform}
    for group, base in bases.items():
        if kind in known(group):
            return _find(group, base, kind)
    if "." in kind:
        for name in known("transforms.events"):
            found = _find("transforms.events", EventTransform, name)
            if kind in found.connect_names:
                return found
    names = sorted(name for group in bases for name in known(group))
    near = difflib.get_close_matches(kind, names, n=1)
    raise Usage(
        f"transforms: unknown type {kind!r}", f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)
    )


def known(group: str) -> list[str]:
    """Every type that can be named in a pipeline file under `sources`, `sinks` or `transforms`."""
    package = importlib.import_module(f"headwater.{group}")
    # A file beside the sources' folders is what they share.
    modules = [module for module in pkgutil.iter_modules(package.__path__) if module.ispkg or group != "sources"]
    own = {module.name for module in modules} - {"base"}
    return sorted(own | {entry.name for entry in _brought(group, tuple(sys.path))})


@cache
def _brought(group: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Plug-ins of others. Looking through the installed packages takes 10 to 100 ms, and the same path has the same."""
    return tuple(entry_points(group=f"headwater.{group}"))


def _find(group: str, base: type[Any], kind: str) -> type[Any]:
    names = known(group)
    if kind not in names:
        near = difflib.get_close_matches(kind, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)
        raise Usage(f"{group}: unknown type {kind!r}", hint)
    for entry in _brought(group, tuple(sys.path)):
        if entry.name != kind:
            continue
        try:
            found: type[Any] = entry.load()
        except (ImportError, AttributeError) as error:
            raise Usage(f"{group}: the plug-in {kind!r} ({entry.value}) does not load: {error}") from error
        if not (inspect.isclass(found) and issubclass(found, base)):
            raise Usage(f"{group}: the plug-in {kind!r} ({entry.value}) is not a {base.__name__}")
        return found
    try:
        module = importlib.import_module(f"headwater.{group}.{kind}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headwater"):
            raise
        raise Usage(
            f"{group}: {kind!r} needs the package {error.name!r}, which is not installed",
            f"pip install 'headwater[{kind}]'",
        ) from error
    for _name, member in inspect.getmembers(module, inspect.isclass):
        if issubclass(member, base) and getattr(member, "type", None) == kind:
            return member
    raise Usage(f"headwater.{group}.{kind} declares no {base.__name__} with type {kind!r}")
