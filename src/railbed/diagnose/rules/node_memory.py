"""A node ran out of memory, nearly.

What
----
A node used more than 95 % of its memory for five seconds, caches not counted.

Why
---
The next allocation may make the kernel kill a rank, or swap: either ends or slows down training on all nodes.

Fix
---
Use a smaller micro-batch (`--set batch.micro=N`) or fewer ranks on the node, and look for other programs there.
`railbed check memory_available` compares the nodes.

Source
------
Linux kernel documentation, /proc/meminfo (MemAvailable) and the out-of-memory killer.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.text import size
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

LIMIT = 0.95
"""Share of the memory, caches not counted."""
LEAST_SECONDS = 5.0


def judge(node: NodeView) -> Iterator[Judgement]:
    """Compare memory in use with the memory of the node."""
    used, total = node.signal("memory_used_bytes"), node.signal("memory_total_bytes").usual
    for span in used.above(LIMIT * total, least=LEAST_SECONDS):
        yield warn(
            f"{size(used.peak(span))} of {size(total)} were in use",
            used,
            span=span,
            certainty="certain",
            expected=f"less than {LIMIT:.0%}".replace("%", " %"),
        )


RULE = Rule(
    name="node_memory",
    title="a node is short of memory",
    scope="node",
    needs=("memory_used_bytes", "memory_total_bytes"),
    judge=judge,
    doc=__doc__,
)
