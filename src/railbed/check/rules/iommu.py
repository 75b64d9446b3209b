"""The IOMMU does not translate the addresses of fast cards on a machine of its own.

What
----
On a machine without virtual machines, cards of 100 Gb/s and more, and cards beside GPUs, have an IOMMU group of type
`identity`, or there is no IOMMU. Virtual machines and hosts that run some are skipped.

Why
---
If the IOMMU translates, every page that a card reads or writes has to be looked up, and memory that is registered for
RDMA has to be entered: bandwidth falls once the tables are larger than its cache, and data between card and GPU goes
through the root of PCIe instead of the switch that both are behind.

Fix
---
Start the kernel with `iommu=pt` (in GRUB_CMDLINE_LINUX of /etc/default/grub, then update-grub or grub2-mkconfig), and
reboot. Cards of virtual machines are still isolated.

Source
------
Linux kernel documentation, kernel parameters (`iommu=pt`) and ABI/testing/sysfs-kernel-iommu_groups (type); NVIDIA NCCL
documentation, troubleshooting.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.hardware.pcie import not_bare_metal, port_speed
from railbed.check.shared.port import no_rdma_on_node, some
from railbed.probes import cpu, pcie, pcie_tuning
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "no translation by the IOMMU for fast cards"
FAST = 100
PASSED_THROUGH = "identity"
REMEDY = (
    "add `iommu=pt` to the kernel's options (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub), and reboot"
)


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the groups of the cards on rails."""
    facts = node.read(pcie_tuning.PROBE)
    cards = node.read(pcie.PROBE)
    if reason := not_bare_metal(node, facts):
        yield skip(reason, expected=EXPECTED)
        return
    has_gpu = any(function.kind == "gpu" for function in facts.functions.values())
    addresses = {
        cards.card_of(port.port.netdev, port.port.rdma)[0]: port
        for port in node.ports
        if has_gpu or (port_speed(port) or 0) >= FAST
    }
    functions = {address: facts.functions[address] for address in addresses if address in facts.functions}
    if not functions:
        yield skip(f"no card of {FAST} Gb/s, or beside a GPU", expected=EXPECTED)
        return
    translated = [address for address, function in functions.items() if function.iommu not in (None, PASSED_THROUGH)]
    if translated:
        kinds = some(sorted({str(functions[address].iommu) for address in translated}))
        options = " ".join(facts.options) or "none"
        observed = f"addresses of {some(translated)} are translated ({kinds})"
        yield warn(observed, expected=EXPECTED, remedy=REMEDY, evidence=f"kernel options: {options}")
    else:
        how = "passed through" if any(function.iommu for function in functions.values()) else "no IOMMU"
        yield ok(expected=EXPECTED, observed=how)


RULE = Rule(
    name="iommu",
    title="no translation by the IOMMU",
    scope="node",
    stage="BIOS",
    needs=(pcie_tuning.PROBE, pcie.PROBE, cpu.PROBE, *CARD_PROBES),
    judge=judge,
    unless=no_rdma_on_node,
    doc=__doc__,
)
