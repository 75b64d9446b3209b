"""The base of all parts of a file that people write, described by the texts below its keys."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Part(BaseModel):
    """Base of all parts of the file: unknown keys are mistakes, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    described_by: ClassVar[type[Any] | None] = None
    """The class whose source has the texts below the keys, if this one has no source."""

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_given(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each key by the text below it. Pydantic would read the source whenever railbed starts."""
        reference = handler(schema)
        texts = _attribute_texts(cls.described_by or cls)
        for name, key in handler.resolve_ref_schema(reference).get("properties", {}).items():
            if name in texts:
                key.setdefault("description", texts[name])
        return reference


def _attribute_texts(kind: type[Any]) -> dict[str, str]:
    """Return the text below each annotated attribute, those of base classes of this project included."""
    texts: dict[str, str] = {}
    for part in reversed([base for base in kind.__mro__ if base.__module__.startswith("railbed.")]):
        body = ast.parse(dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for key, text in zip(body.body, body.body[1:], strict=False):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = " ".join(words.split())
    return texts
