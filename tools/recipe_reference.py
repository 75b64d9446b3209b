"""The reference of recipes, generated from their declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator

from railbed.train.models.find import DEFAULT, families
from railbed.train.recipes import FOLDER
from railbed.train.recipes.validation import schema
from railbed.yamlfile.wording import Schema, describe_expected, schema_of

INTRODUCTION = """\
# Recipes

What `railbed train` trains, as a file: `railbed train own.yaml`. Every key has a default, `extends: NAME` starts from
another recipe, and `--set model.layers=8` changes one key. `railbed train --list` shows the recipes that come with
railbed; this is `tiny`:

```yaml
"""


def recipe_page() -> str:
    """Return the page: an example, then a table of keys for each section, and for each model family."""
    root = schema_of(schema())
    tables = [_table("Keys", "", root, root), *_sections(root)]
    return INTRODUCTION + (FOLDER / "tiny.yaml").read_text() + "```\n\n" + "\n".join(tables)


def _sections(root: Schema) -> Iterator[str]:
    for key, value in root["properties"].items():
        section = _section_of(root, value)
        if key == "model":
            for name in sorted(families(), key=lambda name: (name != DEFAULT, name)):
                other = schema_of(schema(name))
                model = _section_of(other, other["properties"]["model"])
                yield _table(f"model, family {name}", "model.", other, model)
                yield from _sections_within(other, model, "model.")
        elif section:
            yield _table(key, f"{key}.", root, section)


def _sections_within(root: Schema, section: Schema, prefix: str) -> Iterator[str]:
    for key, value in section["properties"].items():
        inner = _section_of(root, value)
        if inner:
            yield _table(f"{prefix}{key}", f"{prefix}{key}.", root, inner)


def _section_of(root: Schema, value: Schema) -> Schema:
    options = [value, *value.get("anyOf", [])]
    names = [str(option["$ref"]).rsplit("/", 1)[1] for option in options if "$ref" in option]
    section: Schema = root["$defs"][names[0]] if names else {}
    return section


def _table(title: str, prefix: str, root: Schema, section: Schema) -> str:
    rows = [_row(f"{prefix}{key}", root, value) for key, value in section["properties"].items()]
    text = section.get("description", "")
    return "\n".join([f"## {title}\n", f"{text}\n", "| key | value | default | |", "|---|---|---|---|", *rows, ""])


def _row(key: str, root: Schema, value: Schema) -> str:
    section = _section_of(root, value)
    form = f"a section, see [{key}](#{_anchor(key)})" if section else describe_expected(root, value)
    default = value.get("default")
    shown = "" if section or default in (None, [], "") else f"`{json.dumps(default).strip(chr(34))}`"
    return f"| `{key}` | {form} | {shown} | {section.get('description') or value.get('description', '')} |"


def _anchor(key: str) -> str:
    """Return the anchor that GitHub gives the heading of a section, which has no full stops."""
    return f"model-family-{DEFAULT}" if key == "model" else key.replace(".", "")
