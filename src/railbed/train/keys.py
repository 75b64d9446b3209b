"""Types of the keys of a recipe, with the values they accept. Plain Python, because nodes read recipes as well.

`recipes/validation.py` turns the markers into validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

Auto = Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a number."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression for a text, and the same in words."""

    expression: str
    form: str


@dataclass(frozen=True, slots=True)
class Accepts:
    """A test for values of several types, and the same in words."""

    form: str
    test: Callable[[object], bool]


def _is_count_or_auto(value: object) -> bool:
    return value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _is_choice_or_auto(value: object) -> bool:
    return value == "auto" or isinstance(value, bool)


def _is_names_or_auto(value: object) -> bool:
    if not isinstance(value, list | tuple):
        return value == "auto"
    return len(value) > 0 and all(isinstance(name, str) and name.isidentifier() for name in value)


def _is_shares(value: object) -> bool:
    if not isinstance(value, Mapping):
        return value in ("speed", "equal")
    numbers = [weight for weight in value.values() if isinstance(weight, int | float) and not isinstance(weight, bool)]
    return len(numbers) == len(value) > 0 and all(0 < weight < inf for weight in numbers)


Text = Annotated[str, Pattern(r"^[^\x00-\x1f\x7f]+$", "text in one line")]
Positive = Annotated[int, Bounds(ge=1)]
Natural = Annotated[int, Bounds(ge=0)]
Fraction = Annotated[float, Bounds(ge=0, le=1)]
BelowOne = Annotated[float, Bounds(ge=0, lt=1)]
NotNegative = Annotated[float, Bounds(ge=0)]
AboveZero = Annotated[float, Bounds(gt=0)]
CountOrAuto = Annotated[int | Auto, Accepts("auto or a whole number, 1 or more", _is_count_or_auto)]
NamesOrAuto = Annotated[
    tuple[str, ...] | Auto, Accepts("auto or a list of names such as [q_proj, v_proj]", _is_names_or_auto)
]
ChoiceOrAuto = Annotated[bool | Auto, Accepts("auto, true or false", _is_choice_or_auto)]
Shares = Annotated[
    Literal["speed", "equal"] | dict[str, float],
    Accepts("speed, equal, or weights of nodes above 0 such as {node1: 3}", _is_shares),
]
