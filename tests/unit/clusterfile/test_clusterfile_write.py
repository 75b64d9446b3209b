"""How a written file looks."""

from __future__ import annotations

import pytest

from railbed.clusterfile import dumps
from railbed.clusterfile.write import scalar
from railbed.model.cluster import Cluster

WRITTEN = """\
# The intended state of this cluster. `railbed check` compares the machines with it.
# It contains only what differs from the defaults.

name: pair

login:
  user: me
  password: {env: SECRET}

policy:
  pfc: false

rails:
  rail0: {subnet: 10.1.0.0/24, speed: 100}

nodes:
  n1:
    host: 10.0.0.1
    login: {port: 2222}
    ports:
      - {netdev: ens224, rdma: rocep19s0, rail: rail0, address: 10.1.0.1}
    gpus:
      - {name: Tesla V100-PCIE-16GB, memory_gb: 16}

switches:
  s1:
    host: nexus.example
    ports:
      - {name: Ethernet1/1, node: n1, netdev: ens224}
"""


def test_a_whole_file() -> None:
    cluster = Cluster.model_validate(
        {
            "name": "pair",
            "nodes": {
                "n1": {
                    "host": "10.0.0.1",
                    "login": {"port": 2222},
                    "ports": [{"netdev": "ens224", "rail": "rail0", "address": "10.1.0.1", "rdma": "rocep19s0"}],
                    "gpus": [{"name": "Tesla V100-PCIE-16GB", "memory_gb": 16}],
                }
            },
            "switches": {
                "s1": {"host": "nexus.example", "ports": [{"name": "Ethernet1/1", "node": "n1", "netdev": "ens224"}]}
            },
            "rails": {"rail0": {"subnet": "10.1.0.0/24", "speed": 100.0}},
            "policy": {"pfc": False, "ecn": True},
            "login": {"user": "me", "password": {"env": "SECRET"}},
            "training": {"python": "python3"},
        }
    )
    assert dumps(cluster) == WRITTEN


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("ens224", "ens224"),
        ("10.1.0.1", "10.1.0.1"),
        ("10.1.0.0/24", "10.1.0.0/24"),
        ("~/.ssh/id_ed25519", "~/.ssh/id_ed25519"),
        ("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3060"),
        ("10.1", '"10.1"'),
        ("~", '"~"'),
        ("off", '"off"'),
        ("fd00::1", '"fd00::1"'),
        ("me@host:22", '"me@host:22"'),
        ('say "a\\b"', '"say \\"a\\\\b\\""'),
        ("\u2028", '"\\U00002028"'),
    ],
)
def test_quotes(text: str, written: str) -> None:
    assert scalar(text) == written
