"""The NVIDIA driver works, shows every GPU, and is new enough for PyTorch.

What
----
Every NVIDIA GPU on the PCI bus is shown by nvidia-smi, and the driver runs the CUDA version that PyTorch was built
with: directly, or through minor-version compatibility (CUDA 11 from driver 450.80.02, CUDA 12 from
525.60.13, CUDA 13 from 580.65.06). NVIDIA's `cuda-compat` packages, which avoid this on data-centre cards, are not
considered.

Why
---
Without a working driver PyTorch finds no GPU on this node, and its rank fails or trains on the CPU while all others
wait for it at every step. A GPU that fell off the bus takes the whole job down when its rank starts.

Fix
---
Install a driver of the branch that PyTorch's CUDA needs, the same on all nodes, and reboot: the finding has the
commands of the node's distribution. NVIDIA's open kernel modules have no GPU before Turing, and branches after 580 none
at all before it (V100, P100). railbed installs no driver and reboots nothing. "Driver/library version mismatch" means
the driver was upgraded under the running module: reboot. A GPU missing from nvidia-smi that lspci still shows: look
for `Xid` in `dmesg`.

Source
------
NVIDIA, CUDA compatibility guide, "Minor version compatibility", CUDA toolkit release notes (minimum drivers), and
driver installation guide (kernel modules, packages by distribution).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.driver import driver_plan
from railbed.check.shared.port import NO_GPU
from railbed.model.text import plural
from railbed.probes import gpu, os_release, torch
from railbed.probes.os_release import OsRelease
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import NodeView

LONGEST = 9
"""Digits of a part of a version: a node may report any text, and Python refuses to read thousands of digits."""
OLDEST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""By the major version of CUDA."""
WORKING = "a driver that shows every GPU"
NOUVEAU = "reboot the machine yourself: the kernel's own driver, nouveau, has the GPUs until then"
NOT_LOADED = (
    "modprobe nvidia; if that fails, `dmesg | grep -i nvidia` shows why, such as Secure Boot, or a reboot is due"
)


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the driver itself, then at what PyTorch requires."""
    gpus = node.read(gpu.PROBE)
    if gpus.none_here:
        yield skip(NO_GPU)
        return
    if not gpus.gpus:
        yield _not_working(gpus, node.try_read(os_release.PROBE))
        return
    hidden = len(gpus.on_bus or ()) - len(gpus.gpus)
    if hidden > 0:
        observed = f"{len(gpus.gpus)} of {len(gpus.on_bus or ())} GPUs on the PCI bus"
        yield warn(expected=WORKING, observed=observed, remedy="dmesg | grep -i xid", evidence=gpus.problem or "")
    elif gpus.problem:
        yield warn(expected=WORKING, observed=gpus.problem)
    yield _judge_version(gpus, node.read(torch.PROBE), node.try_read(os_release.PROBE))


def _not_working(gpus: gpu.Gpus, release: OsRelease | None) -> Judgement:
    if gpus.installed and not gpus.module:
        observed = f"driver {gpus.installed} is installed and not loaded"
        return fail(expected=WORKING, observed=observed, remedy=NOUVEAU if gpus.nouveau else NOT_LOADED)
    if gpus.problem:
        return fail(expected=WORKING, observed="nvidia-smi fails", evidence=gpus.problem, remedy=_remedy(gpus.problem))
    count = len(gpus.on_bus or ())
    if gpus.module:
        return fail(expected=WORKING, observed=f"driver {gpus.module} shows 0 of {count} GPUs")
    observed = f"{plural(count, 'GPU')} on the PCI bus, no driver"
    return fail(expected=WORKING, observed=observed, remedy=driver_plan(gpus.chips, release))


def _remedy(problem: str) -> str:
    return "reboot: the driver was upgraded under its running module" if "mismatch" in problem else ""


def _judge_version(gpus: gpu.Gpus, install: torch.Torch, release: OsRelease | None) -> Judgement:
    driver = gpus.gpus[0].driver or gpus.module
    if driver is None:
        return unknown(expected=WORKING, observed="nvidia-smi does not report the driver's version")
    observed = f"driver {driver} (CUDA {gpus.cuda})" if gpus.cuda else f"driver {driver}"
    if not install.cuda:
        return ok(expected=WORKING, observed=observed)
    expected = f"a driver for torch's CUDA {install.cuda}"
    if gpus.cuda and _numbers(gpus.cuda) >= _numbers(install.cuda):
        return ok(expected=expected, observed=observed)
    oldest = OLDEST_DRIVER.get(_numbers(install.cuda)[0])
    if oldest is None:
        return unknown(expected=expected, observed=f"{observed}; its minimum is not known here")
    if _numbers(driver) >= _numbers(oldest):
        return ok(expected=expected, observed=observed)
    return fail(expected=f"{expected}: {oldest}", observed=observed, remedy=driver_plan(gpus.chips, release))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:LONGEST]) for part in version.split(".") if part.isdecimal()) or (0,)


def _by_hand(node: NodeView) -> Iterator[HandStep]:
    if node.node.gpus:
        yield HandStep(node.name, "install the NVIDIA driver, of the same branch on all nodes, and reboot")


RULE = Rule(
    name="gpu_driver",
    title="the GPU driver works and suits torch",
    scope="node",
    needs=(gpu.PROBE, torch.PROBE, os_release.PROBE),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
)
