"""Plain values to dataclasses, for nodes that have torch and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def structure(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the values as a dataclass, nested ones included; raise ValueError for an unknown or missing key."""
    assert is_dataclass(kind)
    names = [field.name for field in fields(kind)]
    unknown = [key for key in values if key not in names]
    if unknown:
        raise ValueError(f"{kind.__name__} has no {', '.join(unknown)}")
    hints = get_type_hints(kind)
    try:
        return kind(**{name: _value(hints[name], values[name]) for name in names if name in values})
    except TypeError as error:
        raise ValueError(str(error)) from None


def _value(hint: Any, value: Any) -> Any:  # noqa: ANN401 -- plain values in, what the hint names out
    if get_origin(hint) in {Union, UnionType}:
        if isinstance(value, list) and any(get_origin(option) is tuple for option in get_args(hint)):
            return tuple(value)
        nested = [option for option in get_args(hint) if is_dataclass(option)]
        return _value(nested[0], value) if nested and value is not None else value
    if is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else structure(hint, value)
    if get_origin(hint) is tuple:
        return tuple(value)
    return value
