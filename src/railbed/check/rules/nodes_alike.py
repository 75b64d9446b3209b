"""All nodes have similar processors and memory.

What
----
The number of logical processors and the memory of each node are within 10 % of the median node's.

Why
---
Every step waits for its slowest rank. A node with fewer processors feeds its GPUs later, one with less memory sets the
batch size for all, and the rest of the cluster idles meanwhile. A node that differs only by a failed memory
module or by hyper-threading switched off shows here first.

Fix
---
Look for a failed or missing memory module (`dmidecode -t memory`, the BMC's log) and for BIOS settings that differ
(hyper-threading, NUMA). If nodes differ by design, give them different shares of the batch.

Source
------
lscpu(1), proc_meminfo(5); Hugging Face accelerate documentation, troubleshooting: the slowest one sets the pace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median_low

from railbed.check.shared.nodes import Gathered, gather, too_few
from railbed.model.text import plural
from railbed.probes import cpu, memory
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import Site

TOLERANCE = 0.1
EXPECTED = "processors and memory like the other nodes"
GIB = 2**30


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the nodes in processors, then in memory."""
    threads = gather(site, cpu.PROBE, lambda facts: facts.threads, EXPECTED)
    if len(site.cluster.nodes) == 1:
        yield from too_few(site, threads)
        return
    sizes = gather(site, memory.PROBE, lambda facts: facts.total, EXPECTED)
    yield from _compare(site, threads, lambda count: plural(count, "processor"))
    yield from _compare(site, sizes, lambda size: f"{size / GIB:.0f} GiB of memory")


def _compare(site: Site, gathered: Gathered[int], words: Callable[[int], str]) -> Iterator[Judgement]:
    yield from gathered.missing
    if not gathered.comparable:
        yield from too_few(site, gathered)
        return
    usual = median_low(gathered.values.values())
    differing = {node: value for node, value in gathered.values.items() if abs(value - usual) > TOLERANCE * usual}
    for node, value in differing.items():
        yield warn(subject=node, expected=f"about {words(usual)}", observed=words(value))
    if not differing:
        yield ok(expected=EXPECTED, observed=f"about {words(usual)} on {plural(len(gathered.values), 'node')}")


RULE = Rule(
    name="nodes_alike",
    title="similar processors and memory on all nodes",
    scope="cluster",
    stage="BIOS",
    needs=(cpu.PROBE, memory.PROBE),
    judge=judge,
    doc=__doc__,
)
