"""The kernel has the modules that RDMA programs need.

What
----
On nodes with RDMA ports: the RDMA core (ib_core), the interface to programs (ib_uverbs), the driver of the card, and
rdma_ucm, loaded or built in. It is a warning if the next boot does not load one: modprobe.d blocks it, or nothing loads
rdma_ucm (rdma-core does, and newer kernels do on demand).

Why
---
Without ib_uverbs or the card's driver, NCCL and UCX have no device and fall back to TCP sockets, often with only
a line in the log: training runs, at a fraction of the rail's speed. Without rdma_ucm only programs that connect
through librdmacm fail (`ib_write_bw -R`, storage over RDMA).

Fix
---
`modprobe ib_uverbs`, `modprobe rdma_ucm` and the driver (`mlx5_ib`, `mlx4_ib`, `rdma_rxe`, …). The package rdma-core
loads them at boot; after a kernel upgrade install `linux-modules-extra-$(uname -r)` on Ubuntu, where the drivers are.

Source
------
rdma-core, Documentation/udev.md; Linux kernel documentation, infiniband/user_verbs.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import survives
from railbed.check.shared.boot_host import MODULE_PROBES, modules_after_boot
from railbed.check.shared.port import load_modules, no_rdma_on_node, rdma_devices
from railbed.probes import modules
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "ib_core, ib_uverbs, rdma_ucm, the driver"
DRIVERS = {
    "mlx5": "mlx5_ib",
    "mlx4": "mlx4_ib",
    "rxe": "rdma_rxe",
    "siw": "siw",
    "bnxt_re": "bnxt_re",
    "irdma": "irdma",
    "qedr": "qedr",
    "hns": "hns_roce_hw_v2",
    "efa": "efa",
    "erdma": "erdma",
}
"""By the prefix of RDMA device names that identifies their driver."""


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for each module, in the order of their dependencies."""
    wanted = rdma_devices(node)
    facts = node.read(modules.PROBE)
    missing = list(_missing(facts, wanted))
    absent = missing if facts.has("rdma_ucm") else [*missing, "rdma_ucm"]
    if absent:
        wrong = fail if missing else warn
        yield wrong(expected=EXPECTED, observed=f"missing: {', '.join(absent)}", fix=load_modules(node, absent))
    else:
        later, fix = modules_after_boot(node, *_list_loaded(facts, wanted))
        yield survives(ok(expected=EXPECTED, observed="all present"), later, fix)


def _list_loaded(facts: modules.Modules, wanted: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the modules that the next boot has to load: for the hardware, with what they need, and by name."""
    drivers = {driver for device in wanted for prefix, driver in DRIVERS.items() if device.startswith(prefix)}
    for_hardware = [name for name in ("ib_core", "ib_uverbs", *sorted(drivers)) if name in facts.loaded]
    return for_hardware, [name for name in ("rdma_ucm",) if name in facts.loaded]


def _missing(facts: modules.Modules, wanted: tuple[str, ...]) -> Iterator[str]:
    if not facts.has("ib_core") and facts.rdma_devices is None:
        yield "ib_core"
    if not facts.has("ib_uverbs") and facts.verbs_devices is None:
        yield "ib_uverbs"
    absent = [device for device in wanted if device not in (facts.rdma_devices or ())]
    drivers = {driver for device in absent for prefix, driver in DRIVERS.items() if device.startswith(prefix)}
    yield from (driver for driver in sorted(drivers) if not facts.has(driver))


RULE = Rule(
    name="rdma_modules",
    title="the kernel's RDMA modules are loaded",
    scope="node",
    needs=(modules.PROBE, *MODULE_PROBES),
    judge=judge,
    unless=no_rdma_on_node,
    doc=__doc__,
    rank=70,
)
