"""The generated reference of the cluster file is complete."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.cluster_reference import cluster_file_page, cluster_schema

from railbed.clusterfile.read import cluster_schema as model_schema
from railbed.clusterfile.read import describe_expected


def parts() -> dict[str, Any]:
    schema = model_schema()
    return {"Cluster": schema, **schema["$defs"]}


def test_every_key_is_on_the_page_with_a_text() -> None:
    page = cluster_file_page()
    for name, part in parts().items():
        section = page.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        for key in part["properties"]:
            row = re.search(rf"^\| `{key}` \| (.+) \| .* \| (.+) \|$", section, re.MULTILINE)
            assert row, f"{name}.{key}"
            assert row.group(1) != "something else"


def test_every_key_says_what_it_expects() -> None:
    for name, part in parts().items():
        for key, schema in part["properties"].items():
            assert describe_expected(schema) != "something else", f"{name}.{key}"
            assert "pattern" not in schema or "x-form" in schema, f"{name}.{key} has a pattern and no words for it"


def test_links_lead_to_sections() -> None:
    page = cluster_file_page()
    sections = {name.lower() for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([a-z]+)\)", page)) <= sections


def test_schema() -> None:
    text = cluster_schema()
    schema = json.loads(text)
    assert text.endswith("}\n")
    assert list(schema) == sorted(schema)
    assert schema["title"] == "railbed cluster file"
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "x-form" not in text
    assert schema["$defs"]["Port"]["properties"]["netdev"]["description"]
    assert schema["$defs"]["Policy"]["properties"]["priority"]["maximum"] == 7
