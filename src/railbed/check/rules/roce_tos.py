"""RDMA connections get the policy's traffic class by default.

What
----
RDMA-CM's default ToS (configfs), or OFED's global traffic class, is the policy's: DSCP 26 with ECT(0) is 106.
The next boot restores it: it is a warning if it is right now, but nothing sets it at boot.

Why
---
If a program sets nothing, its connection uses DSCP 0 without ECN: it goes to the lossy queue and bypasses the whole
lossless set-up. NCCL does not use RDMA-CM and needs `NCCL_IB_TC=106` in any case; storage over RDMA, `perftest -R` and
MPI over RDMA-CM depend on this default.

Fix
---
`cma_roce_tos -d DEVICE -t 106` (OFED), or `mkdir -p /sys/kernel/config/rdma_cm/DEVICE; echo 106 >
/sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_tos`. It is lost at reboot: use a systemd unit. And export
`NCCL_IB_TC=106` for NCCL. OFED's global class overrides every connection, so that it is corrected only if it is set.

Source
------
Linux kernel documentation, ABI/testing/configfs-rdma_cm; NCCL source, NCCL_PARAM(IbTc) is -1.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import unit_after_boot
from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import first_of, no_lossless, no_rdma, rdma_name, set_value
from railbed.model.fix import Fix, Persistence, RunStep, as_steps, write_value
from railbed.probes import modules, roce_tos
from railbed.probes.roce_tos import Tos
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

CONFIGFS = "/sys/kernel/config/rdma_cm"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the defaults with the policy's traffic class."""
    wanted = port.policy.traffic_class
    expected = f"default traffic class {wanted}"
    card = card_of(port)
    if card.infiniband_link or card.family in ("siw", "iwarp"):
        yield skip("not RoCE: no traffic class by default", expected=expected)
        return
    if card.roce_v1:
        yield skip("RoCE v1 on this rail: its packets have no traffic class that a switch reads", expected=expected)
        return
    tos = port.read(roce_tos.PROBE).ports.get(rdma_name(port), Tos())
    if tos.global_tclass == wanted:
        right = ok(expected=expected, observed=f"global traffic class {wanted}")
        fix = set_value(port, _global_file(port), before=wanted, after=wanted)
        yield survives(right, unit_after_boot(port, RULE.name, fix, "tos"), fix)
    elif tos.global_tclass is not None:
        fix = set_value(port, _global_file(port), before=tos.global_tclass, after=wanted)
        yield warn(expected=expected, observed=f"global traffic class {tos.global_tclass}", fix=fix)
    elif tos.cm_tos is None:
        yield _without_folder(port, expected)
    elif tos.cm_tos == wanted:
        right, fix = ok(expected=expected, observed=f"RDMA-CM ToS {wanted} (NCCL needs NCCL_IB_TC)"), _with_folder(port)
        yield survives(right, unit_after_boot(port, RULE.name, fix, "tos"), fix) if wanted else right
    else:
        fix = set_value(port, _file(port), before=tos.cm_tos, after=wanted, note=_note(port))
        yield warn(expected=expected, observed=f"RDMA-CM ToS {tos.cm_tos}", fix=fix)


def _without_folder(port: PortView, expected: str) -> Judgement:
    """Judge a device without a folder in configfs: RDMA-CM has its default unless a folder once existed."""
    configurable = port.read(roce_tos.PROBE).configurable
    loaded = port.node.try_read(modules.PROBE)
    comes_with_modules = loaded is not None and not loaded.has("rdma_ucm")
    if configurable or comes_with_modules:
        fix = _with_folder(port, after=() if configurable else ("rdma_modules",))
        return warn(expected=expected, observed="RDMA-CM ToS not set: configfs has no folder of this device", fix=fix)
    return unknown(
        expected=expected,
        observed="configfs has no folder of RDMA-CM",
        remedy="modprobe rdma_cm; mount -t configfs configfs /sys/kernel/config",
    )


def _with_folder(port: PortView, after: tuple[str, ...] = ()) -> Fix:
    """Create the device's folder and write the value; undoing writes the kernel's default and removes the folder.

    The kernel keeps the value of a port when the folder is removed. Both ports of a card share the folder, and each is
    undone by itself: so the undo creates the folder again if it has to.
    """
    folder, file = shlex.quote(f"{CONFIGFS}/{port.port.rdma}"), _file(port)
    restore = f"mkdir -p {folder} && {write_value(0, file)} && rmdir {folder}"
    return Fix(
        device=port.node.name,
        apply=as_steps(f"mkdir -p {folder}", write_value(port.policy.traffic_class, file)),
        undo=(RunStep(command=restore, only_if=f"[ -d {CONFIGFS} ]"),),
        persistence=Persistence.BOOT,
        after=after,
        note=_note(port),
    )


def _global_file(port: PortView) -> str:
    return f"/sys/class/infiniband/{port.port.rdma}/tc/{port.port.rdma_port}/traffic_class"


def _file(port: PortView) -> str:
    return f"{CONFIGFS}/{port.port.rdma}/ports/{port.port.rdma_port}/default_roce_tos"


def _note(port: PortView) -> str:
    return f"NCCL does not use it: export NCCL_IB_TC={port.policy.traffic_class} too"


RULE = Rule(
    name="roce_tos",
    title="default traffic class of RDMA",
    scope="port",
    needs=(roce_tos.PROBE, modules.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=first_of(no_rdma, no_lossless),
    doc=__doc__,
    rank=180,
)
