"""All nodes run the same kernel.

What
----
`uname -r` is the same on all nodes; the release that most nodes have is taken as the right one.

Why
---
The RDMA and NIC drivers come with the kernel. Two releases can differ in defaults (DCQCN, buffer sizes, GID order) and
in bugs, so that one node of the all-reduce is slower or fails for a reason that no setting shows.

Fix
---
Install the same kernel package on the nodes that differ and boot it; hold it there (`apt-mark hold`), so that an
automatic upgrade on one node does not undo this.

Source
------
Linux kernel documentation, mlx5 and mlx4 drivers: part of the kernel release, with its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nodes import gather, most_common, too_few
from railbed.model.text import plural
from railbed.probes import os_release
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import Site


def judge(site: Site) -> Iterator[Judgement]:
    """Blame the nodes that differ from most others."""
    kernels = gather(site, os_release.PROBE, lambda facts: facts.kernel, "the same kernel on all nodes")
    yield from kernels.missing
    if not kernels.comparable:
        yield from too_few(site, kernels)
        return
    usual = most_common(kernels.values.values())
    example = next(node for node, kernel in kernels.values.items() if kernel == usual)
    differing = {node: kernel for node, kernel in kernels.values.items() if kernel != usual}
    for node, kernel in differing.items():
        yield warn(
            subject=node,
            expected=f"kernel {usual}, as {example}",
            observed=f"kernel {kernel}",
            remedy=f"install and boot kernel {usual} on {node}",
        )
    if not differing:
        yield ok(
            expected="the same kernel on all nodes", observed=f"kernel {usual} on {plural(len(kernels.values), 'node')}"
        )


RULE = Rule(
    name="kernel_equal",
    title="the same kernel on all nodes",
    scope="cluster",
    needs=(os_release.PROBE,),
    judge=judge,
    doc=__doc__,
)
