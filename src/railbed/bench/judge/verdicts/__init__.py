"""All judgements of a run's measurements, as findings: against the hardware, against the others, against before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.bench.judge.baseline import Baseline
from railbed.bench.judge.verdicts.hardware import against_hardware
from railbed.bench.judge.verdicts.history import against_before
from railbed.bench.judge.verdicts.latency import against_latency
from railbed.bench.judge.verdicts.peers import against_others
from railbed.bench.site import BenchSite
from railbed.model.record import Finding, Measurement


def all_verdicts(site: BenchSite, measurements: Sequence[Measurement], baseline: Baseline | None) -> Iterator[Finding]:
    """Yield every judgement."""
    yield from against_hardware(site, measurements)
    yield from against_latency(site, measurements)
    yield from against_others(site, measurements)
    if baseline:
        yield from against_before(measurements, baseline)
