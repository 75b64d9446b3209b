"""The form of a recipe file, derived from the dataclasses of `recipe.py` and of the model families.

Validation, messages about mistakes and the reference page use pydantic, which nodes do not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from dataclasses import Field as DataclassField
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, Field, StringConstraints, create_model, model_validator

from railbed.model.cluster import Number, Part, Whole
from railbed.train.keys import Accepts, Bounds, Pattern
from railbed.train.models.find import DEFAULT, families
from railbed.train.recipe import Recipe

STRICT = {int: Whole, float: Number}


@cache
def schema(family: str = DEFAULT) -> type[Part]:
    """Return the form of a recipe whose model is of this family."""
    return _derive(Recipe, {"model": families()[family].settings, "family": Literal[tuple(sorted(families()))]})


def family_in(values: Mapping[str, Any]) -> str:
    """Return the model family that unchecked values name; the default if they name none that exists."""
    model = values.get("model")
    name = model.get("family") if isinstance(model, dict) else None
    return name if isinstance(name, str) and name in families() else DEFAULT


def _derive(kind: type[Any], replaced: Mapping[str, Any]) -> type[Part]:
    hints = get_type_hints(kind, include_extras=True)
    keys: dict[str, Any] = {}
    for key in fields(kind):
        hint = _convert(replaced.get(key.name, hints[key.name]), replaced)
        keys[key.name] = (hint, Field(_default(key, hint)))
    base = _checked_by(kind) if hasattr(kind, "__post_init__") else Part
    name = kind.__name__.removesuffix("Settings")
    keys["described_by"] = (ClassVar[type[Any] | None], kind)
    return create_model(name, __base__=base, __doc__=kind.__doc__, **keys)


def _default(key: DataclassField[Any], hint: Any) -> Any:  # noqa: ANN401 -- any type of key
    if isinstance(hint, type) and issubclass(hint, Part):
        return hint()
    return key.default if key.default is not MISSING else ...


def _convert(hint: Any, replaced: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- types in, types out
    """Return a type that pydantic validates: numbers without conversion, our markers as pydantic's."""
    if get_origin(hint) is Annotated:
        inner, *markers = get_args(hint)
        described = getattr(markers[0], "form", "")
        notes = [Field(json_schema_extra={"x-form": described})] if described else []
        return Annotated.__class_getitem__((_convert(inner, replaced), _marker(markers[0]), *notes))
    if get_origin(hint) in {Union, UnionType}:
        return Union[tuple(_convert(option, replaced) for option in get_args(hint))]  # noqa: UP007 -- of a tuple
    if get_origin(hint) is tuple:
        return tuple.__class_getitem__((_convert(get_args(hint)[0], replaced), ...))
    if is_dataclass(hint) and isinstance(hint, type):
        return _derive(hint, replaced)
    return STRICT.get(hint, hint)


def _marker(marker: object) -> Any:  # noqa: ANN401 -- pydantic's markers have no common type
    match marker:
        case Bounds():
            return Field(ge=marker.ge, gt=marker.gt, le=marker.le, lt=marker.lt)
        case Pattern():
            return StringConstraints(pattern=marker.expression)
        case Accepts():
            return BeforeValidator(lambda value: _accept(marker, value))
    raise TypeError(f"{marker} is not a marker of a recipe key")


def _accept(marker: Accepts, value: object) -> object:
    if not marker.test(value):
        raise ValueError(f"expected {marker.form}")
    return value


def _checked_by(kind: type[Any]) -> type[Part]:
    """Return a base whose values must also pass the dataclass's own check."""

    class Checked(Part):
        @model_validator(mode="after")
        def _check(self) -> Checked:
            kind(**self.model_dump())
            return self

    return Checked
