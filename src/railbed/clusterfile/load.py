"""From a file to a cluster, or to one error that lists everything wrong with it."""

from __future__ import annotations

from pathlib import Path

from railbed.clusterfile.consistency import contradictions
from railbed.clusterfile.kind import CLUSTER_FILE
from railbed.model.cluster import Cluster
from railbed.yamlfile.document import YamlDocument, parse
from railbed.yamlfile.mistakes import Mistake, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validated


def load(path: Path) -> Cluster:
    """Read a cluster file; raise ClusterFileError with every mistake, one to a line."""
    return loads(read_text(path, CLUSTER_FILE), name=str(path))


def loads(text: str, *, name: str) -> Cluster:
    """Read the text of a cluster file; `name` is used in messages."""
    document = parse(text.removeprefix(BYTE_ORDER_MARK), name, CLUSTER_FILE)
    mistakes = list(document.mistakes)
    cluster = validated(Cluster, document.value, document, CLUSTER_FILE, mistakes)
    mistakes += _between_parts(document)
    if mistakes or cluster is None:
        raise refusal(CLUSTER_FILE, name, mistakes)
    return cluster


def _between_parts(document: YamlDocument) -> list[Mistake]:
    assert isinstance(document.value, dict)
    return [Mistake(sentence, document.line(path), path) for path, sentence in contradictions(document.value)]
