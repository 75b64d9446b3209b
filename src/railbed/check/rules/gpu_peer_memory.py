"""The network card can read and write GPU memory directly (GPUDirect RDMA).

What
----
On nodes with NVIDIA GPUs and RDMA ports: the module nvidia_peermem (or the older nv_peer_mem) is loaded; or the kernel
is 5.12 or newer with NVIDIA's open kernel driver, which offers GPU memory as DMA-BUF without any module. GeForce cards
and GB10 (DGX Spark and its like) have no GPUDirect RDMA, whatever is loaded: they are not judged.
A module that nothing loads at the next boot is a warning.

Why
---
Without either, NCCL copies every gradient through host memory on both ends. That costs memory bandwidth, CPU time and,
on a fast rail, up to half of the all-reduce's speed; nothing fails, training is only slower.

Fix
---
`modprobe nvidia-peermem`, and `echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf` for the next boot. Or use
NVIDIA's open kernel driver (515 or newer) on kernel 5.12 or newer, with CUDA 11.7 or newer.

Source
------
NVIDIA, GPUDirect RDMA documentation (nvidia-peermem, DMA-BUF); Linux 5.12, `ib_umem_dmabuf_get`; NVIDIA developer
forum 348787 (GB10).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from railbed.check.shared.boot import survives
from railbed.check.shared.boot_host import MODULE_PROBES, modules_after_boot
from railbed.check.shared.port import gpu_obstacle, load_modules, no_rdma_on_node
from railbed.probes import gpu, modules, os_release
from railbed.probes.gpu import GB10
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "nvidia_peermem, or DMA-BUF"
MODULES = ("nvidia_peermem", "nv_peer_mem")
WITHOUT = {
    "GeForce": "GeForce cards have no GPUDirect RDMA",
    GB10: "GB10 has no GPUDirect RDMA: programs register host memory, which is the same memory",
}
"""GPUs for which neither way exists, by a part of their names."""
FIRST_KERNEL = (5, 12)
MODULE = ("nvidia-peermem",)


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for either kind of access to GPU memory."""
    gpus = node.read(gpu.PROBE)
    obstacle = gpu_obstacle(gpus, EXPECTED)
    if obstacle:
        yield obstacle
    elif reasons := _reasons_without(gpus):
        yield skip(reasons[0])
    else:
        yield _judge_ways(gpus, node.read(modules.PROBE), node)


def _reasons_without(gpus: gpu.Gpus) -> list[str]:
    """Return why the GPUs have no GPUDirect RDMA; nothing if one of them may have it."""
    reasons = [next((why for part, why in WITHOUT.items() if part in card.name), "") for card in gpus.gpus]
    return reasons if all(reasons) else []


def _judge_ways(gpus: gpu.Gpus, kernel_modules: modules.Modules, node: NodeView) -> Judgement:
    loaded = [name for name in MODULES if kernel_modules.has(name)]
    if loaded:
        right = ok(expected=EXPECTED, observed=f"{loaded[0]} is loaded")
        if loaded[0] not in kernel_modules.loaded or _has_dma_buf(gpus, node.try_read(os_release.PROBE)):
            return right
        name = loaded[0].replace("_", "-") if loaded[0] == MODULES[0] else loaded[0]
        later, fix = modules_after_boot(node, (), (name,))
        return survives(right, later, fix)
    release = node.read(os_release.PROBE)
    kernel = release.kernel or ""
    if _has_dma_buf(gpus, release):
        return ok(expected=EXPECTED, observed=f"DMA-BUF: kernel {kernel}, open driver")
    driver = "open driver" if gpus.open_module else "proprietary driver"
    return warn(
        expected=EXPECTED, observed=f"no module; kernel {kernel or 'unknown'}, {driver}", fix=load_modules(node, MODULE)
    )


def _has_dma_buf(gpus: gpu.Gpus, release: os_release.OsRelease | None) -> bool:
    """Whether GPU memory can be reached without a module."""
    kernel = release.kernel if release else None
    return bool(gpus.open_module and kernel and _kernel_version(kernel) >= FIRST_KERNEL)


def _kernel_version(release: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", release, re.ASCII)
    return tuple(map(int, match.groups())) if match else (0, 0)


RULE = Rule(
    name="gpu_peer_memory",
    title="GPUDirect RDMA is available",
    scope="node",
    stage="card",
    needs=(gpu.PROBE, modules.PROBE, os_release.PROBE, *MODULE_PROBES),
    judge=judge,
    unless=no_rdma_on_node,
    doc=__doc__,
)
