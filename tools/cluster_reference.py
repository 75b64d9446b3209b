"""Generate the reference of the cluster file from its model: a page for people, and a JSON Schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railbed.clusterfile.read import cluster_schema as model_schema
from railbed.clusterfile.read import describe_expected, resolve
from railbed.yamlfile.wording import Schema

EXAMPLE = Path(__file__).parent.parent / "examples" / "two-roce-vms.yaml"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "railbed cluster file"
INTRODUCTION = """\
# The cluster file

What a cluster should be: its nodes, their ports on rails, its switches, the lossless policy and the logins. It never
contains a secret. Unknown keys are mistakes, and a key without a value counts as absent. Anchors, aliases
and tags of YAML are not allowed. The JSON Schema beside this page, [cluster.schema.json](cluster.schema.json), lets an
editor complete and check the keys; name it in the first line of a file:
`# yaml-language-server: $schema=…/cluster.schema.json`.

```yaml
"""


def cluster_file_page() -> str:
    """Return the page: an example, then a table of keys for each part of the file."""
    tables = (_section(name, part) for name, part in _parts())
    return INTRODUCTION + EXAMPLE.read_text() + "```\n\n" + "\n".join(tables)


def cluster_schema() -> str:
    """Return the JSON Schema of the file."""
    schema = {**_public(model_schema()), "$schema": DIALECT, "title": TITLE}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _parts() -> Iterator[tuple[str, Schema]]:
    """Yield the parts in the order in which they appear in the file."""
    waiting, visited = [("Cluster", model_schema())], {"Cluster"}
    while waiting:
        name, part = waiting.pop(0)
        yield name, part
        below = [other for key in part["properties"].values() if (other := _part_below(key)) and other not in visited]
        visited.update(below)
        waiting[:0] = [(other, model_schema()["$defs"][other]) for other in dict.fromkeys(below)]


def _part_below(schema: Schema) -> str:
    """Return the part that a key contains, directly, in a list or by name; empty for a plain value."""
    inner = [schema, *schema.get("anyOf", []), schema.get("items", {}), *schema.get("patternProperties", {}).values()]
    return next((str(option["$ref"]).rsplit("/", 1)[1] for option in inner if "$ref" in option), "")


def _section(name: str, part: Schema) -> str:
    required = set(part.get("required", []))
    rows = [_row(key, schema, required=key in required) for key, schema in part["properties"].items()]
    return "\n".join(
        [f"## {name}\n", f"{part['description']}\n", "| key | value | default | |", "|---|---|---|---|", *rows, ""]
    )


def _row(key: str, schema: Schema, *, required: bool) -> str:
    default = "required" if required else _default(schema.get("default"))
    return f"| `{key}` | {_value(schema)} | {default} | {schema.get('description', '')} |"


def _value(schema: Schema) -> str:
    part = _part_below(schema)
    if not part:
        return describe_expected(schema)
    link = f"[{part}](#{part.lower()})"
    kind = resolve(schema).get("type")
    return f"list of {link}" if kind == "array" else f"{link} by name" if "patternProperties" in schema else link


def _default(value: object) -> str:
    if value is None or isinstance(value, list | dict):
        return ""
    return f"`{json.dumps(value).strip(chr(34))}`"


def _public(schema: Any) -> Any:  # noqa: ANN401
    """Return a schema without railbed's own extensions and without trivial defaults."""
    if isinstance(schema, list):
        return [_public(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _public(value) for key, value in schema.items() if key != "x-form" and not _says_nothing(key, value)}


def _says_nothing(key: str, value: object) -> bool:
    return key == "default" and (value is None or isinstance(value, dict))
