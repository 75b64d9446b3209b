"""NVIDIA's firmware tools (mlxconfig, mlxlink, and mstflint's versions of them): a command for a node's cards.

The tools take seconds for a card, so all cards are asked at the same time, and only those of ports on rails. They need
the card itself: a virtual function, and most virtual machines, have nothing to answer. Then nothing is printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from railbed.model.cluster import Cluster, Port

SECONDS = 20
"""How long a tool may take for a card."""


def for_each_card(cluster: Cluster, device: str, tools: Iterable[str], arguments: str) -> str:
    """Return a command that runs the first of some tools for each port on a rail; `$address` and `$port` are its own.

    What is printed for a port follows `==> ADDRESS/PORT <==`.
    """
    ports = sorted({_name(port) for port in cluster.nodes[device].rdma_ports if port.rdma})
    if not ports:
        return ""
    chosen = " || ".join(f"command -v {tool}" for tool in tools)
    return f"""
tool=$({chosen}) || exit 0
for name in {" ".join(ports)}; do
  address=$(readlink -f "/sys/class/infiniband/${{name%/*}}/device") || continue
  address=${{address##*/}}
  port=${{name##*/}}
  [ -e "/sys/bus/pci/drivers/mlx5_core/$address" ] || [ -e "/sys/bus/pci/drivers/mlx4_core/$address" ] || continue
  [ ! -e "/sys/bus/pci/devices/$address/physfn" ] || continue
  (
    answer=$(timeout {SECONDS} "$tool" {arguments} 2>&1)
    printf '==> %s <==\\n%s\\n' "$address/$port" "$answer"
  ) &
done
wait
"""


def _name(port: Port) -> str:
    return shlex.quote(f"{port.rdma}/{port.rdma_port}")
