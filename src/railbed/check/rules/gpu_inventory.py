"""The GPUs of every node are those in the cluster file.

What
----
The node has as many GPUs as the file lists; each listed name is part of the name of one of them, and its memory is the
listed one within 10 % (as GB or as GiB, since vendors use either).

Why
---
One rank is started per listed GPU. With a card missing its rank cannot start and the others wait for it; a smaller or
slower card sets the batch size and the pace for all.

Fix
---
A missing card: reseat it, look for `Xid` in `dmesg`, check its power cable. Otherwise correct `gpus:` of the node in
the cluster file.

Source
------
The cluster file; nvidia-smi(1), `--query-gpu=name,memory.total`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from railbed.model.cluster import Gpu
from railbed.probes import gpu
from railbed.rules.judgement import Judgement, fail, ok, skip, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import NodeView

TOLERANCE = 0.1
GB, GIB = 10**9, 2**30


def judge(node: NodeView) -> Iterator[Judgement]:
    """Find a card for every listed GPU."""
    listed, installed = node.node.gpus, list(node.read(gpu.PROBE).gpus)
    expected = _words(item.name for item in listed) or "no GPU listed"
    observed = _words(card.name for card in installed) or "no GPU"
    if not listed and not installed:
        yield skip("no GPU in the cluster file, and none on the node")
    elif not listed:
        remedy = f"list them under `gpus:` of {node.name} in the cluster file"
        yield warn(expected=expected, observed=observed, remedy=remedy)
    elif len(listed) != len(installed) or not _all_found(listed, installed):
        yield fail(expected=expected, observed=observed)
    else:
        yield ok(expected=expected, observed=observed)


def _all_found(listed: Iterable[Gpu], installed: list[gpu.InstalledGpu]) -> bool:
    """Assign a card to every listed GPU, those with the most exact description first."""
    left = list(installed)
    for item in sorted(listed, key=lambda item: (item.memory_gb is None, -len(item.name))):
        match = next((card for card in left if _fits(item, card)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _fits(listed: Gpu, card: gpu.InstalledGpu) -> bool:
    if listed.name.lower() not in card.name.lower():
        return False
    if listed.memory_gb is None or card.memory_bytes is None:
        return True
    sizes = (card.memory_bytes / GB, card.memory_bytes / GIB)
    return any(abs(size - listed.memory_gb) <= TOLERANCE * listed.memory_gb for size in sizes)


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in Counter(names).items())


def _by_hand(node: NodeView) -> Iterator[HandStep]:
    if node.node.gpus:
        yield HandStep(
            node.name, "seat its GPUs, plug in their power cables, and turn on Above 4G Decoding in the BIOS"
        )


RULE = Rule(
    name="gpu_inventory",
    title="GPUs as in the cluster file",
    scope="node",
    stage="BIOS",
    needs=(gpu.PROBE,),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
)
