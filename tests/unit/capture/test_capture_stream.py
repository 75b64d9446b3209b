"""The stream of `capture --with`: refused before anything starts if nobody could send it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.api.verbs.capture_stream import choose_stream
from railbed.capture.run import CaptureRequest
from railbed.clusterfile import loads
from railbed.errors import UsageError
from railbed.model.cluster import Cluster

NONE, OTHER = "names no RDMA device (`rdma:`) of the ports to record", "no two of the nodes to record have an RDMA"


def cluster(*nodes: dict[str, str]) -> Cluster:
    """Return a cluster whose nodes have ports on these rails, with these RDMA devices if they are named."""
    lines = ["name: c", "rails: {rail0: {subnet: 10.0.0.0/24}, rail1: {subnet: 10.0.1.0/24}}", "nodes:"]
    for number, ports in enumerate(nodes, 1):
        texts = [
            f"{{rail: {rail}, netdev: e{at}, address: 10.0.{rail[-1]}.{number}{f', rdma: {rdma}' if rdma else ''}}}"
            for at, (rail, rdma) in enumerate(ports.items())
        ]
        lines.append(f"  n{number}: {{host: h{number}, ports: [{', '.join(texts)}]}}")
    return loads("\n".join(lines) + "\n", name="c.yaml")


BOTH = {"rail0": "mlx5_0", "rail1": "mlx5_1"}
BARE = {"rail0": "", "rail1": ""}


@pytest.mark.parametrize(
    ("made", "request_", "reason"),
    [
        (cluster(BARE, BARE), CaptureRequest(), NONE),
        (cluster(BOTH, BARE), CaptureRequest(), OTHER),
        (cluster({"rail0": "mlx5_0"}, {"rail1": "mlx5_0"}), CaptureRequest(), OTHER),
        (cluster(BOTH, BOTH), CaptureRequest(nodes=["n1"]), OTHER),
        (cluster({"rail0": "mlx5_0", "rail1": ""}, BOTH), CaptureRequest(rails=["rail1"]), OTHER),
        (cluster({"rail0": "mlx5_0", "rail1": ""}, BARE), CaptureRequest(rails=["rail1"]), NONE),
    ],
)
def test_nobody_could_send_it(made: Cluster, request_: CaptureRequest, reason: str) -> None:
    with pytest.raises(UsageError, match="cannot send RDMA") as raised:
        choose_stream("bench", made, request_)
    assert reason in raised.value.message


@pytest.mark.parametrize(
    ("made", "request_"),
    [
        (cluster(BOTH, BOTH), CaptureRequest()),
        (cluster(BOTH, BOTH, BARE), CaptureRequest(rails=["rail1"])),
        (cluster({"rail0": "mlx5_0"}, BOTH), CaptureRequest()),
    ],
)
def test_two_nodes_can_send_it(made: Cluster, request_: CaptureRequest) -> None:
    assert choose_stream("bench", made, request_) is not None


def test_a_suite_that_also_sends_tcp_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").write_text("steps: [{test: ib_write_bw}, {test: iperf3}]\n")
    (tmp_path / "rdma.yaml").write_text("steps: [{test: ib_write_bw}, {test: ib_read_lat}]\n")
    assert choose_stream(f"bench:{tmp_path / 'mixed.yaml'}", cluster(BARE, BARE), CaptureRequest()) is not None
    assert choose_stream("bench:tcp", cluster(BARE, BARE), CaptureRequest()) is not None
    with pytest.raises(UsageError, match="cannot send RDMA"):
        choose_stream(f"bench:{tmp_path / 'rdma.yaml'}", cluster(BARE, BARE), CaptureRequest())
