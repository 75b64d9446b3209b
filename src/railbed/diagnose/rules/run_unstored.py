"""The run ended because its records could not be stored.

What
----
A record could not be written to the run's folder, mostly because the disk was full. That ended the run; what came
after is in no record.

Why
---
A run without its records cannot be judged, reported or continued with certainty, so it does not go on without them.

Fix
---
Free some disk space here (`railbed runs --clean` removes files of earlier runs), or set RAILBED_RUNS to a folder on a
larger disk.

Source
------
`unstored` in the run's own `run.json`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule
from railbed.rules.site import Site


def judge(site: Site) -> Iterator[Judgement]:
    """Report why the last records are missing."""
    if reason := site.run.timeline.unstored:
        yield fail(
            f"the run ended because its records could not be stored here: {reason}",
            span=Span(site.run.span.end, site.run.span.end),
            certainty="certain",
            expected="every record is stored",
        )


RULE = Rule(
    name="run_unstored",
    title="records could not be stored",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
)
