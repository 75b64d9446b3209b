"""From a file to a cluster, or to one error that lists everything wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from railbed.clusterfile.consistency import contradictions
from railbed.clusterfile.kind import CLUSTER_FILE
from railbed.model.cluster import Cluster, Node
from railbed.yamlfile.document import parse
from railbed.yamlfile.mistakes import Mistake, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validated


def load(path: Path) -> Cluster:
    """Read a cluster file; raise ClusterFileError with every mistake, one to a line."""
    return loads(read_text(path, CLUSTER_FILE), name=str(path))


def load_site(path: Path, *, name: str, nodes: Mapping[str, Node]) -> Cluster:
    """Read the cluster file of a site, which may lack a name, and nodes that a scheduler lends: use these instead."""
    values = {"name": name, "nodes": {key: node.model_dump(exclude_defaults=True) for key, node in nodes.items()}}
    return loads(read_text(path, CLUSTER_FILE), name=str(path), defaults=values)


def loads(text: str, *, name: str, defaults: Mapping[str, object] | None = None) -> Cluster:
    """Read the text of a cluster file; `name` is used in messages, and `defaults` for keys that the file lacks."""
    document = parse(text.removeprefix(BYTE_ORDER_MARK), name, CLUSTER_FILE)
    mistakes = list(document.mistakes)
    assert isinstance(document.value, dict)
    values = {**(defaults or {}), **document.value}
    cluster = validated(Cluster, values, document, CLUSTER_FILE, mistakes)
    mistakes += [Mistake(sentence, document.line(path), path) for path, sentence in contradictions(values)]
    if mistakes or cluster is None:
        raise refusal(CLUSTER_FILE, name, mistakes)
    return cluster
