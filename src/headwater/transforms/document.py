"""The tables of docs/transforms.md, from what transforms declare: `python -m headwater.transforms.document`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.options import Secret, declared
from headwater.registry import known, transform_class


def tables() -> str:
    """One table per transform."""
    return "\n".join(line for group in ("changes", "events") for line in _group(group))


def _group(group: str) -> Iterator[str]:
    for kind in known(f"transforms.{group}"):
        cls = transform_class(kind)
        yield f"### `{kind}`"
        yield ""
        yield str(cls.__doc__).splitlines()[0]
        if cls.connect_names:
            yield "In Kafka Connect: " + ", ".join(f"`{name}`" for name in cls.connect_names) + "."
        yield ""
        yield "| option | Debezium's name | default | meaning |"
        yield "|---|---|---|---|"
        for option in declared(cls.options_class):
            if not option.hidden:
                names = ", ".join(f"`{name}`" for name in option.aliases)
                default = "required" if option.required else _shown(option.default)
                yield f"| `{option.name}` | {names} | {default} | {_meaning(option.help, option.choices)} |"
        yield ""


def _shown(default: Any) -> str:
    match default:
        case Secret() | "" | []:
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case list():
            return f"`[{', '.join(default)}]`"
    return f"`{default}`"


def _meaning(text: str, choices: tuple[str, ...]) -> str:
    listed = ", ".join(f"`{choice}`" for choice in choices if choice)
    return (f"{text}: {listed}" if listed else text).replace("|", "\\|")


if __name__ == "__main__":
    print(tables())  # noqa: T201
