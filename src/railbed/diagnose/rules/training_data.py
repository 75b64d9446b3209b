"""Steps wait for their data.

What
----
For ten seconds or more, reading the batch took at least a fifth of the step.

Why
---
GPUs idle while a disk or a data server delivers. The rank with the slowest disk holds up all others.

Fix
---
Copy the data to a local disk, or give it to fewer readers at once. `railbed bench storage` measures the disks of all
nodes and names the slow one.

Source
------
railbed's own measures of steps (`data_seconds`, docs/training-metrics.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.steps import in_pieces, place_of, steps_of
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import Rule
from railbed.rules.signal import median_of
from railbed.rules.site import Site

LIMIT = 0.2
"""Share of the step."""
LEAST_SECONDS = 10.0


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the time for data with the step, rank by rank; if all ranks wait, the cluster is named once."""
    steps, data = steps_of(site, "step_seconds"), steps_of(site, "data_seconds")
    usual = median_of([signal.usual for signal in steps.values()])
    both = {rank: signal for rank, signal in data.items() if rank in steps}
    lasting = in_pieces(site, {rank: steps[rank] for rank in both}, usual)
    reading = in_pieces(site, both, usual)
    shares = reading.values / lasting.values
    waits: list[tuple[int, Span]] = [
        (row, span) for row in range(len(both)) for span in reading.where(shares[row] > LIMIT, least=LEAST_SECONDS)
    ]
    everyone = len(both) > 1 and len({row for row, _ in waits}) == len(both)
    for row, span in waits[:1] if everyone else waits:
        rank = reading.ranks[row]
        share = median_of(shares[row][reading.during(span)])
        yield warn(
            f"reading the batch took {share * 100:.0f} % of {'every' if everyone else 'the'} rank's step",
            data[rank],
            span=span,
            certainty="certain",
            subject="cluster" if everyone else place_of(rank, reading.ranks),
            expected="the next batch is ready",
        )


RULE = Rule(
    name="training_data",
    title="steps wait for data",
    scope="cluster",
    needs=("data_seconds", "step_seconds"),
    judge=judge,
    doc=__doc__,
)
