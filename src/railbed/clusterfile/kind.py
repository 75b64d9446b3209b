"""The cluster file as a kind of file."""

from __future__ import annotations

from railbed.errors import ClusterFileError
from railbed.model.cluster import Cluster
from railbed.yamlfile.kind import FileKind

CLUSTER_FILE = FileKind(
    noun="a cluster file",
    model=Cluster,
    error=ClusterFileError,
    keys="name and nodes",
    hint="`railbed discover HOST…` writes one",
    habits={
        "device": "rdma",
        "gateway": "jump",
        "hca": "rdma",
        "iface": "netdev",
        "interface": "netdev",
        "ip": "address",
        "mtu": "host_mtu",
        "network": "subnet",
        "nic": "netdev",
        "username": "user",
    },
)
