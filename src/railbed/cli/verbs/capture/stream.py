"""The stream that `--with` sends while packets are recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Record, Verdict

Stream = Callable[[Fleet], AsyncGenerator[Record, None]]
VERB, SUITE = "bench", "stream"


def choose_stream(text: str | None, cluster: Cluster) -> Stream | None:
    """Return the stream for `bench` or `bench:SUITE`; None if none is wanted."""
    if text is None:
        return None
    verb, _, suite = text.partition(":")
    if verb != VERB:
        raise UsageError(f"there is no stream {text!r}", hint="--with bench, or --with bench:SUITE for another suite")
    # Imported here because bench is slow to load.
    from railbed.bench import suites
    from railbed.bench.run import BenchRequest, bench

    name = suite or SUITE
    request = BenchRequest(name=name, suite=suites.load(name))

    def send(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _without_verdicts(bench(cluster, fleet, request))

    return send


async def _without_verdicts(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Pass on what was sent and measured; bench's verdicts are about an undisturbed network, which this is not."""
    async with aclosing(records):
        async for record in records:
            if not isinstance(record, Finding):
                yield record
            elif record.verdict is Verdict.UNKNOWN or record.verdict is Verdict.SKIPPED:
                yield events.Notice(subject=record.subject, message=f"sends no stream: {record.observed}")
