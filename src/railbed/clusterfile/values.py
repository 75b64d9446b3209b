"""A cluster's parts as the plain values of a file: only what differs from the defaults."""

from __future__ import annotations

from collections.abc import Mapping

from railbed.model.cluster import Part, Port, SwitchPort

Plain = bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def plain(value: object) -> Plain:
    """Return a part, or a value in a part, as the file has it."""
    match value:
        case Part():
            return {name: plain(field) for name, field in needed(value).items()}
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case tuple():
            return [plain(item) for item in value]
        case bool() | int() | str():
            return value
        case float():
            return int(value) if value.is_integer() and value < 1e15 else value
    return str(value)


def needed(part: Part) -> dict[str, object]:
    """Return the fields that have to be written: those without a default, and those that differ from it."""
    fields = type(part).model_fields
    values = {name: getattr(part, name) for name in fields}
    return {
        name: value
        for name, value in values.items()
        if fields[name].is_required() or value != fields[name].get_default()
    }


def item_keys(items: tuple[Part | str, ...]) -> list[str]:
    """Return the keys that identify the items of a list: a port's interface, a switch port's name, else the index."""
    keys = [_own_key(item) or str(index) for index, item in enumerate(items)]
    return keys if len(set(keys)) == len(keys) else [str(index) for index in range(len(items))]


def _own_key(item: Part | str) -> str:
    match item:
        case Port():
            return item.netdev
        case SwitchPort():
            return item.name
    return ""
