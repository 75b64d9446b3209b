"""What a key of the cluster file expects, in words; for its reference."""

from __future__ import annotations

from railbed.model.cluster import Cluster
from railbed.yamlfile import wording
from railbed.yamlfile.wording import Schema, schema_of


def cluster_schema() -> Schema:
    """Return the JSON Schema of the cluster file, as pydantic makes it."""
    return schema_of(Cluster)


def resolved(schema: Schema) -> Schema:
    """Return a part of the schema with references resolved."""
    return wording.resolved(cluster_schema(), schema)


def expected(schema: Schema) -> str:
    """Return what a value must be, as the end of a sentence that begins with `expected`."""
    return wording.expected(cluster_schema(), schema)
