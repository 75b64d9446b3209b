"""The GPUs stay initialised while nothing uses them (persistence mode).

What
----
`nvidia-smi` shows persistence mode enabled on every GPU, and nvidia-persistenced or railbed's unit enables it at boot.
Skipped if the driver has no such mode.

Why
---
Without it, the driver shuts a GPU down when its last program ends, and each start of training initialises it again: one
to three seconds for each GPU, on every node, at every restart after a failure. What was set with nvidia-smi, such as a
power limit or locked clocks, is lost in between, so that the next training runs at another speed.

Fix
---
`nvidia-smi -pm 1`, which is lost at reboot. `nvidia-persistenced` does the same from boot on, but not as Debian and
Ubuntu start it: their unit has `--no-persistence-mode`.

Source
------
NVIDIA, driver persistence (docs.nvidia.com/deploy/driver-persistence); nvidia-smi(1), nvidia-persistenced(1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.check.shared.boot import survives
from railbed.check.shared.boot_host import HOST_PROBES, gpus_after_boot
from railbed.check.shared.port import gpu_obstacle
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.model.text import plural
from railbed.probes import gpu
from railbed.probes.gpu import InstalledGpu
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "persistence mode on"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the mode of each GPU."""
    gpus = node.read(gpu.PROBE)
    obstacle = gpu_obstacle(gpus, EXPECTED)
    off = [card for card in gpus.gpus if card.persistence is False]
    if obstacle:
        yield obstacle
    elif off:
        observed = f"off on {len(off)} of {plural(len(gpus.gpus), 'GPU')}"
        yield warn(expected=EXPECTED, observed=observed, fix=_fix(node, off))
    elif all(card.persistence is None for card in gpus.gpus):
        yield skip("the driver has no persistence mode here", expected=EXPECTED)
    else:
        right = ok(expected=EXPECTED, observed=f"on, {plural(len(gpus.gpus), 'GPU')}")
        lasting = [card for card in gpus.gpus if card.persistence]
        fix = _fix(node, lasting)
        yield survives(right, gpus_after_boot(node, RULE.name, fix, [card.index for card in lasting]), fix)


def _fix(node: NodeView, cards: Sequence[InstalledGpu]) -> Fix:
    """Switch it on for some GPUs, so that undoing leaves the others alone."""
    command = f"nvidia-smi -i {','.join(str(card.index) for card in cards)} -pm"
    return Fix(
        device=node.name, apply=as_steps(f"{command} 1"), undo=as_steps(f"{command} 0"), persistence=Persistence.BOOT
    )


RULE = Rule(
    name="gpu_persistence",
    title="GPUs stay initialised",
    scope="node",
    needs=(gpu.PROBE, *HOST_PROBES),
    judge=judge,
    doc=__doc__,
    rank=65,
)
