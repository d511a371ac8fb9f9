"""Options, declared once: a dataclass field says default, help text and Debezium aliases.

YAML, the command line, `--help`, the documentation table and Spark's `.option()` all read these
declarations. Nobody lists an option a second time.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headwater.errors import Usage

T = TypeVar("T")

MASK = "******"


class Secret:
    """Text that never shows itself: not in repr, str, logs, errors or JSON."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one call that needs it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return MASK if self._text else "''"

    __str__ = __repr__


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    aliases: Sequence[str] = (),
    choices: Sequence[str] = (),
    hidden: bool = False,
    pattern: str = "",
) -> Any:
    """One option of a plug-in: a dataclass field that knows its help text and other names.

    `{name}` in a text default becomes the pipeline's name. `hidden` keeps it out of the docs table. `pattern` is
    for names that carry parameters (`column.mask.with.12.chars`): every key that matches it as a whole goes into
    the field, a dict from key to value.
    """
    metadata = {"help": help, "aliases": tuple(aliases), "choices": tuple(choices), "hidden": hidden}
    metadata["pattern"] = pattern
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Declared:
    """One declaration, as `--help`, the docs table and the parser read it."""

    name: str
    type: Any
    default: Any
    help: str
    aliases: tuple[str, ...]
    choices: tuple[str, ...]
    required: bool
    hidden: bool
    pattern: str = ""

    def takes(self, key: str) -> bool:
        """Whether a key is one of the names that carry parameters."""
        return bool(self.pattern) and re.fullmatch(self.pattern, key, re.IGNORECASE) is not None


def declared(cls: type) -> list[Declared]:
    """Every option of a plug-in's options class, in the order of declaration."""
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found.append(
            Declared(
                name=field.name,
                type=hints[field.name],
                default=None if default is dataclasses.MISSING else default,
                help=field.metadata.get("help", ""),
                aliases=field.metadata.get("aliases", ()),
                choices=field.metadata.get("choices", ()),
                required=default is dataclasses.MISSING,
                hidden=field.metadata.get("hidden", False),
                pattern=field.metadata.get("pattern", ""),
            )
        )
    return found


def parse_options(cls: type[T], given: Mapping[str, Any], *, where: str, name: str = "") -> T:
    """Build `cls` from user input. Unknown, doubled, missing or ill-typed keys raise Usage."""
    known = {d.name: d for d in declared(cls)}
    by_alias = {alias: d for d in known.values() for alias in (d.name, *d.aliases)}
    values: dict[str, Any] = {}
    said: dict[str, str] = {}
    for key, value in given.items():
        found = by_alias.get(key)
        if found is None:
            patterned = next((d for d in known.values() if d.takes(key)), None)
            if patterned is None:
                raise unknown_key(key, by_alias, where)
            values.setdefault(patterned.name, {})[key] = ",".join(value) if isinstance(value, list) else str(value)
            continue
        if found.name in values:
            raise Usage(f"{where}: {key!r} and {said[found.name]!r} are two names of one option; keep one")
        said[found.name] = key
        values[found.name] = convert(value, found, f"{where}: {key}")
    for d in known.values():
        if d.name in values:
            continue
        if d.required:
            raise Usage(f"{where}: {d.name!r} is missing ({d.help})")
        if isinstance(d.default, str) and "{name}" in d.default:
            values[d.name] = d.default.replace("{name}", name)
    return cls(**values)


def split_options(given: Mapping[str, Any], *classes: type, where: str) -> list[dict[str, Any]]:
    """One mapping per class: each key goes to the first class that declares it. Unknown keys raise Usage."""
    options = [declared(cls) for cls in classes]
    names = [{alias for d in known for alias in (d.name, *d.aliases)} for known in options]
    parts: list[dict[str, Any]] = [{} for _ in classes]
    for key, value in given.items():
        owner = next((i for i, known in enumerate(names) if key in known), None)
        if owner is None:
            owner = next((i for i, known in enumerate(options) if any(d.takes(key) for d in known)), None)
        if owner is None:
            raise unknown_key(key, dict.fromkeys(sorted(set().union(*names))), where)
        parts[owner][key] = value
    return parts


def unknown_key(key: str, known: Mapping[str, object], where: str) -> Usage:
    """The error for a key nobody declared, naming the nearest one that somebody did."""
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(sorted(known))
    return Usage(f"{where}: unknown option {key!r}", hint)


def convert(value: Any, d: Declared, where: str) -> Any:
    """One given value as the declared type; texts come from Spark options and Debezium files."""
    kind = d.type
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(arm for arm in typing.get_args(kind) if arm is not type(None))
    try:
        converted = _convert_to(kind, value)
    except (TypeError, ValueError) as error:
        shown = MASK if kind is Secret else repr(value)
        raise Usage(f"{where}: {shown} is not {_describe(kind)}") from error
    if d.choices and converted not in d.choices:
        near = difflib.get_close_matches(str(converted), d.choices, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "one of: " + ", ".join(d.choices)
        raise Usage(f"{where}: {converted!r} is not a choice", hint)
    return converted


def _convert_to(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if kind is Secret:
        return value if isinstance(value, Secret) else Secret(_to_text(value))
    if kind is bool:
        return _to_bool(value)
    if kind is int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise TypeError("a whole number wanted")
        return int(value)
    if kind is float:
        return float(value)
    if kind is str:
        return _to_text(value)
    if origin in (list, tuple):
        if isinstance(value, Mapping):
            raise TypeError("a list wanted")
        parts = value.split(",") if isinstance(value, str) else list(value)
        if typing.get_args(kind)[:1] != (str,):
            return origin(parts)
        return origin(str(part).strip() for part in parts if str(part).strip())
    if origin is dict:
        return {str(k): str(v) for k, v in dict(value).items()}
    if origin is not None and issubclass(origin, Mapping):
        return dict(value)
    return value


def _to_text(value: Any) -> str:
    # YAML reads an empty value as None: a password that was forgotten is not the word "None".
    if value is None or isinstance(value, (Mapping, list)):
        raise TypeError("a text wanted")
    return str(value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    match str(value).strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
    raise ValueError(value)


def _describe(kind: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Secret: "a text"}
    if kind in names:
        return names[kind]
    return "a list of texts" if typing.get_origin(kind) in (list, tuple) else "of the right form"
