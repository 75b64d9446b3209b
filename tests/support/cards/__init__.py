"""ConnectX cards for the nodes of a netns lab, as far as railbed reads and sets them: commands and files with a state.

No card of a lab accepts the settings of DCQCN, and none has OFED's tools. A node with one of these cards has a stand-in
for `mlnx_qos` (OFED) or `dcb` (inbox driver) that holds its state in a file, and trees of plain files in place of
sysfs, debugfs and configfs. They exist only in the mount namespace of the node.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.support.labs import RunningLab

FOLDER = Path(__file__).parent
Kind = Literal["ofed", "inbox"]
STATE = {
    "ofed": "mlnx_qos -i rail0; cd /sys/class/net/rail0/ecn && grep -r '' . | sort",
    "inbox": "for name in pfc app ets buffer; do dcb -j $name show dev rail0; done; grep -r '' /sys/kernel/debug/mlx5",
}
LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIGFS = "ls /sys/kernel/config/rdma_cm; cat /run/card/tos"


@contextmanager
def card(lab: RunningLab, node: str, kind: Kind) -> Iterator[None]:
    """Give the interface rail0 of a node a card called mlx5_0, with the settings it has after start-up."""
    installed = lab.run_inside(
        node, f"sh -eu {shlex.quote(str(FOLDER / 'install.sh'))} {kind} {shlex.quote(str(FOLDER))}"
    )
    assert installed.code == 0, installed
    try:
        yield
    finally:
        removed = lab.run_inside(node, "sh -eu /run/card/remove")
        assert removed.code == 0, removed


def state(lab: RunningLab, node: str, kind: Kind) -> str:
    """Return all settings of a card."""
    result = lab.run_inside(node, f"PATH={LOGIN_PATH}; ({STATE[kind]}) 2>&1; {CONFIGFS}")
    assert result.code == 0, result
    return result.out
