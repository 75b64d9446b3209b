"""RDMA connections get the policy's traffic class by default.

What
----
RDMA-CM's default ToS (configfs), or OFED's global traffic class, is the policy's: DSCP 26 with ECT(0) is 106.

Why
---
If a program sets nothing, its connection uses DSCP 0 without ECN: it goes to the lossy queue and bypasses the whole
lossless set-up. NCCL does not use RDMA-CM and needs `NCCL_IB_TC=106` in any case; storage over RDMA, `perftest -R` and
MPI over RDMA-CM depend on this default.

Fix
---
`cma_roce_tos -d DEVICE -t 106` (OFED), or `mkdir -p /sys/kernel/config/rdma_cm/DEVICE; echo 106 >
/sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_tos`. It is lost at reboot: use a systemd unit. And export
`NCCL_IB_TC=106` for NCCL.

Source
------
Linux kernel documentation, ABI/testing/configfs-rdma_cm; NCCL source, NCCL_PARAM(IbTc) is -1.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, ok, skip, unknown, warn
from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.fixes import set_value
from railbed.check.shared.rdma import on_rdma_ports, rdma_name
from railbed.check.site import PortView
from railbed.probes import roce_tos
from railbed.probes.roce_tos import Tos


@on_rdma_ports
def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the defaults with the policy's traffic class."""
    wanted = port.policy.traffic_class
    expected = f"default traffic class {wanted}"
    if not port.policy.pfc and not port.policy.ecn:
        yield skip("the policy has PFC and ECN off")
        return
    card = card_of(port)
    if card.infiniband_link or card.family in ("siw", "iwarp"):
        yield skip("not RoCE: no traffic class by default", expected=expected)
        return
    tos = port.read(roce_tos.PROBE).ports.get(rdma_name(port), Tos())
    if tos.global_tclass == wanted:
        yield ok(expected=expected, observed=f"global traffic class {wanted}")
    elif tos.global_tclass is not None:
        file = f"/sys/class/infiniband/{port.port.rdma}/tc/{port.port.rdma_port}/traffic_class"
        fix = set_value(port, file, before=tos.global_tclass, after=wanted)
        yield warn(expected=expected, observed=f"global traffic class {tos.global_tclass}", fix=fix)
    elif tos.cm_tos is None:
        folder = f"/sys/kernel/config/rdma_cm/{port.port.rdma}"
        yield unknown(
            expected=expected,
            observed="configfs has no folder of this device",
            remedy=f"mkdir {folder}; cat {folder}/ports/{port.port.rdma_port}/default_roce_tos",
        )
    elif tos.cm_tos == wanted:
        yield ok(expected=expected, observed=f"RDMA-CM ToS {wanted} (NCCL needs NCCL_IB_TC)")
    else:
        file = f"/sys/kernel/config/rdma_cm/{port.port.rdma}/ports/{port.port.rdma_port}/default_roce_tos"
        note = f"NCCL does not use it: export NCCL_IB_TC={wanted} too"
        fix = set_value(port, file, before=tos.cm_tos, after=wanted, note=note)
        yield warn(expected=expected, observed=f"RDMA-CM ToS {tos.cm_tos}", fix=fix)


CHECK = Check(
    name="roce_tos",
    title="default traffic class of RDMA",
    scope="port",
    needs=(roce_tos.PROBE, *CARD_PROBES),
    judge=judge,
    doc=__doc__,
)
