"""The options of perftest: the same on both sides but for the device, with more patience if the kernel does RDMA."""

from __future__ import annotations

from railbed.bench.tool import End, ToolCall, ToolSettings
from railbed.bench.tools.perftest import TOOL

CARD = End(node="a", address="10.0.0.1", rdma="mlx5_0", gid_index=3)
OTHER = End(node="b", address="10.0.0.2", rdma="mlx5_1", rdma_port=2, gid_index=5)
SOFT = End(node="c", address="10.0.0.3", rdma="rxe0", gid_index=1, soft=True)


def command(client: End, server: End) -> tuple[str, str]:
    assert TOOL.server is not None
    call = ToolCall(
        test="ib_write_bw", client=client, server=server, port=20500, settings=ToolSettings(traffic_class=106)
    )
    return TOOL.client(call), TOOL.server(call)


def test_both_sides_are_reported_the_same_but_for_the_device() -> None:
    assert command(CARD, OTHER) == (
        "ib_write_bw -d mlx5_0 -i 1 -p 20500 -F -s 65536 -x 3 --tclass=106 -D 2 --report_gbits 10.0.0.2",
        "ib_write_bw -d mlx5_1 -i 2 -p 20500 -F -s 65536 -x 5 --tclass=106 -D 2 --report_gbits",
    )


def test_soft_roce_may_answer_late_at_either_end() -> None:
    assert [" -u 20 " in line for pair in ((SOFT, CARD), (CARD, SOFT)) for line in command(*pair)] == [True] * 4
