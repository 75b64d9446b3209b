"""Judge the measurements of a run: against the hardware, against each other, and against the baseline.

Read `hardware.py` first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.bench.judge.baseline import Baseline
from railbed.bench.judge.verdicts.hardware import against_hardware
from railbed.bench.judge.verdicts.history import against_baseline
from railbed.bench.judge.verdicts.latency import against_latency
from railbed.bench.judge.verdicts.peers import against_peers
from railbed.bench.site import BenchSite
from railbed.model.record import Finding, Measurement


def all_verdicts(site: BenchSite, measurements: Sequence[Measurement], baseline: Baseline | None) -> Iterator[Finding]:
    """Yield the findings of every judgement."""
    yield from against_hardware(site, measurements)
    yield from against_latency(site, measurements)
    yield from against_peers(site, measurements)
    if baseline:
        yield from against_baseline(measurements, baseline)
