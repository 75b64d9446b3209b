"""Fields of JSON objects of foreign origin: any JSON may come through a control socket, or be in a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping

Arguments = Mapping[str, object]


def number(arguments: Arguments, name: str, default: int | None = None) -> int:
    """Return a field that is a whole number; without a default it is required."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number")
    return value


def optional_number(arguments: Arguments, name: str) -> int | None:
    """Return a field that is a whole number, or None if it is absent or null."""
    return None if arguments.get(name) is None else number(arguments, name)


def text(arguments: Arguments, name: str, default: str | None = None) -> str:
    """Return a field that is text; without a default it is required."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text")
    return value


def flag(arguments: Arguments, name: str, default: bool | None = None) -> bool:
    """Return a field that is true or false; without a default it is required."""
    value = arguments.get(name, default)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false")
    return value


def check_names(arguments: Arguments, known: Collection[str]) -> None:
    """Refuse fields that a request does not have."""
    if unknown := sorted(arguments.keys() - set(known)):
        raise ValueError(f"unknown field {', '.join(unknown)}")
