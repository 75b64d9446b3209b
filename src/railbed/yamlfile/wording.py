"""What a key of a file expects, in words, from the model's own schema."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

from railbed.yamlfile.mistakes import Key, KeyPath, quote_text

Schema = dict[str, Any]

FORMATS = {
    "ipv4": "an IP address such as 10.1.0.1",
    "ipv4network": "a network with its prefix, such as 10.1.0.0/24",
}
PLAIN_TYPES = {"boolean": "true or false", "string": "text", "array": "a list"}


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    """Return the JSON Schema of a kind of file, as pydantic makes it."""
    return model.model_json_schema()


def schema_at(root: Schema, path: KeyPath) -> Schema:
    """Return the schema of a key; an empty one if there is no such key."""
    schema = root
    for part in path:
        schema = _step(resolve(root, schema), part)
    return resolve(root, schema)


def resolve(root: Schema, schema: Schema) -> Schema:
    """Return a schema without the indirections: references followed, `or null` left out."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if "$ref" in schema:
        return resolve(root, root["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "x-form" in schema:
        return schema
    return resolve(root, options[0]) if options else schema


def _step(schema: Schema, part: Key) -> Schema:
    if isinstance(part, int):
        below: Schema = schema.get("items", {})
        return below
    if "properties" in schema:
        return dict(schema["properties"].get(part, {}))
    return dict(next(iter(schema.get("patternProperties", {}).values()), {}))


def keys_at(root: Schema, path: KeyPath) -> list[str]:
    """Return the keys that the map at a path may have."""
    return list(schema_at(root, path).get("properties", {}))


def describe_expected(root: Schema, schema: Schema) -> str:
    """Return what a value must be, as the end of a sentence that begins with `expected`."""
    schema = resolve(root, schema)
    kind = schema.get("type", "")
    if "x-form" in schema:
        return str(schema["x-form"])
    if "const" in schema or "enum" in schema:
        return " or ".join(str(choice) for choice in choices(schema))
    if kind in {"integer", "number"}:
        return _number(schema)
    if kind == "object":
        return f"keys such as {next(iter(schema['properties']))}" if "properties" in schema else "names as keys"
    return FORMATS.get(schema.get("format", ""), PLAIN_TYPES.get(kind, "something else"))


def choices(schema: Schema) -> list[str]:
    """Return the values that a key allows; empty if it allows any."""
    return [str(choice) for choice in schema.get("enum", [schema["const"]] if "const" in schema else [])]


def _number(schema: Schema) -> str:
    noun = "a whole number" if schema["type"] == "integer" else "a number"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if low is not None:
        return f"{noun}, {low:g} or more"
    above = schema.get("exclusiveMinimum")
    return f"{noun} above {above:g}" if above is not None else noun


def actual(value: object) -> str:
    """Return what the file has instead, as the end of a sentence."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return quote_text(value)
        case list():
            return "a list"
        case dict():
            return "a map"
    return str(value)[:40]
