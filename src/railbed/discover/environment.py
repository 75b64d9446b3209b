"""The Python that machines will train with, if none of them has torch yet: an environment that configure creates."""

from __future__ import annotations

from railbed.model.cluster import Cluster

ENVIRONMENT = "/opt/railbed/env/bin/python"
"""In a folder that root creates, and every account can read."""


def with_environment(cluster: Cluster) -> Cluster:
    """Return a cluster that trains in an environment of its own."""
    return cluster.model_copy(update={"training": cluster.training.model_copy(update={"python": ENVIRONMENT})})
