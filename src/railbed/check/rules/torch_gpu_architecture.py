"""PyTorch has code for the GPUs of the node.

What
----
The architectures that the installed PyTorch was built for cover the compute capability of each GPU: the same one
(`sm_90`), a lower minor number of the same generation (`sm_80` runs on 8.6), or PTX (`compute_80`) that the driver
compiles for a newer card.

Why
---
A wheel without code for the card installs and imports without a warning. The first operation on the GPU then ends with
"no kernel image is available for execution on the device", on that node only, after all ranks have met. Volta (V100,
sm_70) is missing from PyTorch's CUDA 13 wheels, and from its CUDA 12.8 wheels since 2.11.

Fix
---
Install a wheel that has the architecture: for older cards the CUDA 12.6 build (`cu126` on
PyTorch's own package index), for newer cards a newer PyTorch. All nodes need the same release, so choose
one that covers every card.

Source
------
CUDA C++ programming guide, binary and PTX compatibility; pytorch#172352 (Volta dropped); `torch.cuda.get_arch_list`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from railbed.check.shared.port import gpu_obstacle
from railbed.probes import gpu, torch
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "torch has code for this GPU"
ARCHITECTURE = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af]?)", re.ASCII)
CPU_REMEDY = "install a CUDA build of torch"
OLD_REMEDY = "install the CUDA 12.6 build of the same torch release (cu126)"
NEW_REMEDY = "install a newer torch: this card is newer than the wheel"
Capability = tuple[int, int]


def judge(node: NodeView) -> Iterator[Judgement]:
    """Compare each model of GPU with the wheel."""
    gpus = node.read(gpu.PROBE)
    obstacle = gpu_obstacle(gpus, EXPECTED)
    if obstacle:
        yield obstacle
        return
    install = node.read(torch.PROBE)
    if not install.torch:
        yield skip("torch is not installed; see torch_equal")
    elif not install.cuda:
        yield fail(expected=EXPECTED, observed=f"torch {install.torch} is a {install.build} build", remedy=CPU_REMEDY)
    elif install.import_error:
        yield fail(expected=EXPECTED, observed="torch does not import", evidence=install.import_error)
    elif install.architectures is None:
        yield unknown(expected=EXPECTED, observed="torch did not report its architectures in time")
    else:
        yield from _judge_models(gpus.gpus, install.architectures)


def _judge_models(gpus: Iterable[gpu.InstalledGpu], wheel: tuple[str, ...]) -> Iterator[Judgement]:
    for name, capability in dict.fromkeys((card.name, card.compute_capability) for card in gpus):
        if capability is None:
            yield unknown(expected=EXPECTED, observed=f"the driver does not report the compute capability of {name}")
            continue
        major, minor = map(int, capability.split("."))
        observed = f"{name} is sm_{major}{minor}"
        if any(_covers(architecture, (major, minor)) for architecture in wheel):
            yield ok(expected=EXPECTED, observed=observed)
        else:
            remedy = OLD_REMEDY if (major, minor) < min(map(_capability, wheel)) else NEW_REMEDY
            yield fail(
                expected=EXPECTED, observed=f"{observed}, not in the wheel", remedy=remedy, evidence=" ".join(wheel)
            )


def _covers(architecture: str, card: Capability) -> bool:
    """A suffix restricts: `a` runs on that capability only, `f` within its generation only."""
    match = ARCHITECTURE.fullmatch(architecture)
    if not match:
        return False
    built = int(match["major"]), int(match["minor"])
    if match["suffix"] == "a":
        return built == card
    if match["kind"] == "compute" and not match["suffix"]:
        return built <= card
    return built[0] == card[0] and built[1] <= card[1]


def _capability(architecture: str) -> Capability:
    match = ARCHITECTURE.fullmatch(architecture)
    return (int(match["major"]), int(match["minor"])) if match else (0, 0)


RULE = Rule(
    name="torch_gpu_architecture",
    title="torch has code for the node's GPUs",
    scope="node",
    stage="environment",
    needs=(gpu.PROBE, torch.PROBE),
    judge=judge,
    doc=__doc__,
)
