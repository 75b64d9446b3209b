"""Between a GPU and a card behind one PCIe switch, ACS does not send packets up to the root.

What
----
On a machine without virtual machines, the bridges of a PCIe switch that a GPU and a card share have the request and
completion redirect of ACS off. Skipped where no GPU shares a switch with a card, in virtual machines, and on hosts that
run some: there ACS keeps their devices apart.

Why
---
With GPUDirect RDMA the card reads and writes the GPU's memory directly, through the switch that both are behind. ACS
redirects these packets to the processor and back: NCCL gets a fraction of the bandwidth, and may hang.

Fix
---
Turn off ACS in the BIOS (or the IOMMU, if nothing needs it). Until the next boot, for each bridge:
`setpci -s ADDRESS ECAP_ACS+6.w=0000`. Never on a machine that passes devices to virtual machines.

Source
------
NVIDIA NCCL documentation, troubleshooting (PCI Access Control Services); PCI Express Base Specification, ACS.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.pcie import not_bare_metal, shared_bridges
from railbed.check.shared.port import no_rdma_on_node, some
from railbed.model.text import plural
from railbed.probes import cpu, pcie_tuning
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "ACS does not redirect between GPUs and cards"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the bridges that GPUs and cards share."""
    facts = node.read(pcie_tuning.PROBE)
    bridges = shared_bridges(facts)
    reason = not_bare_metal(node, facts)
    if not bridges:
        yield skip("no GPU is behind one PCIe switch with a card", expected=EXPECTED)
        return
    if reason:
        yield skip(reason, expected=EXPECTED)
        return
    functions = [facts.functions[bridge] for bridge in bridges if bridge in facts.functions]
    redirecting = [bridge for bridge in bridges if bridge in facts.functions and facts.functions[bridge].acs_redirects]
    if redirecting:
        commands = "; ".join(f"setpci -s {bridge} ECAP_ACS+6.w=0000" for bridge in redirecting)
        yield warn(
            f"{plural(len(redirecting), 'bridge')} redirect: {some(redirecting)}",
            expected=EXPECTED,
            remedy=f"turn off ACS in the BIOS unless virtual machines will run here; until the next boot: {commands}",
        )
    elif all(function.max_read_request is None for function in functions):
        yield unknown(
            expected=EXPECTED,
            observed="the registers of the bridges were not read",
            remedy="install the package pciutils",
        )
    else:
        yield ok(expected=EXPECTED, observed=f"{plural(len(bridges), 'bridge')} without redirection")


RULE = Rule(
    name="acs",
    title="ACS off between GPUs and cards",
    scope="node",
    stage="BIOS",
    needs=(pcie_tuning.PROBE, cpu.PROBE),
    judge=judge,
    unless=no_rdma_on_node,
    doc=__doc__,
)
