"""The node has free memory, and does not swap.

What
----
At least a tenth of the memory is available, and less swap is in use than a twentieth of the memory. If there would be
enough without the memory of a run of railbed that is in progress, the finding names that run.

Why
---
Training pins buffers that cannot be swapped, and its data loaders take memory per rank. A node that is nearly full when
the job starts pushes other pages out and stalls every step for all, or the kernel kills a rank hours later.

Fix
---
See which processes use it (`ps aux --sort=-rss | head`), and end those that are not needed; stop a run in progress with
`railbed train --stop`, not by its processes. Unused huge pages count as taken: `sysctl vm.nr_hugepages`.

Source
------
proc_meminfo(5), MemAvailable; Linux kernel documentation, admin-guide/mm/concepts.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nodes import advise_on_run, describe_run, runs_on
from railbed.probes import agents, memory
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

LEAST_AVAILABLE, MOST_SWAPPED = 0.10, 0.05
EXPECTED = f"{LEAST_AVAILABLE:.0%} available, no swapping"
GIB = 2**30


def judge(node: NodeView) -> Iterator[Judgement]:
    """Judge available memory, then swap."""
    facts = node.read(memory.PROBE)
    if facts.available is None:
        yield unknown(expected=EXPECTED, observed="this kernel does not report available memory")
        return
    available = f"{facts.available / GIB:.1f} of {facts.total / GIB:.1f} GiB available"
    swapped = facts.swap_used or 0
    if facts.available < LEAST_AVAILABLE * facts.total:
        lacking = LEAST_AVAILABLE * facts.total - facts.available
        yield _scarce(node, available, lacking)
    elif swapped > MOST_SWAPPED * facts.total:
        yield _scarce(node, f"{swapped / GIB:.1f} GiB swapped out", swapped - MOST_SWAPPED * facts.total)
    else:
        yield ok(expected=EXPECTED, observed=available)


def _scarce(node: NodeView, observed: str, lacking: float) -> Judgement:
    """Name the largest run of railbed on the node if it has the memory that is lacking."""
    largest = max(runs_on(node), key=lambda run: run.memory, default=None)
    if largest is None or largest.memory < lacking:
        return warn(expected=EXPECTED, observed=observed)
    reason = f"{describe_run(node, largest)} with {largest.memory / GIB:.1f} GiB"
    return warn(expected=EXPECTED, observed=f"{observed}: {reason}", remedy=advise_on_run(node, largest))


RULE = Rule(
    name="memory_available",
    title="free memory, no swapping",
    scope="node",
    needs=(memory.PROBE, agents.PROBE),
    judge=judge,
    doc=__doc__,
    at_restart=True,
)
