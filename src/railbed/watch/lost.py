"""Reads the BMC of a node that was lost, while it is fresh: `diagnose` has it as evidence afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from railbed.fleet import Fleet
from railbed.fleet.survey import read_facts
from railbed.model import events
from railbed.model.cluster import Cluster, bmc_name
from railbed.model.events.bmc import BMC_PREFIX
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Record
from railbed.parsing.bmc.wording import describe_state
from railbed.probes.bmc import log, power
from railbed.watch.run import alongside

AGAIN_SECONDS = 60.0
"""A node that is lost several times in a row is read once in this time."""
LAST_SECONDS = 20.0
"""How long the end of a verb waits for a report: losing a node may be what ended it."""


class LostNodes:
    """The nodes that a verb loses, and the reports of their BMCs. A BMC is only read."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._lost: asyncio.Queue[str] = asyncio.Queue()
        self._noted: dict[str, float] = {}

    def beside(self, records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        """Yield the records of a verb, and reports about nodes that it loses; the records alone if there is no BMC."""
        if not self._cluster.bmcs():
            return records
        return alongside(self._noting(records), self._reports(), what="reading BMCs")

    async def _noting(self, records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        async with aclosing(records):
            async for record in records:
                if isinstance(record, events.NodeLost | events.SamplingGap | events.GenerationFailed):
                    self._note(record.subject.partition("/")[0])
                yield record
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self._lost.join()
        except TimeoutError:
            return

    def _note(self, node: str) -> None:
        now = time.monotonic()
        if bmc_name(node) in self._cluster.bmcs() and now - self._noted.get(node, -AGAIN_SECONDS) >= AGAIN_SECONDS:
            self._noted[node] = now
            self._lost.put_nowait(node)

    async def _reports(self) -> AsyncGenerator[Record, None]:
        while True:
            node = await self._lost.get()
            try:
                yield await self._read(node)
            finally:
                self._lost.task_done()

    async def _read(self, node: str) -> events.BmcReport:
        name = bmc_name(node)
        _, bmc = self._cluster.bmcs()[name]
        if bmc.password is not None and bmc.password.prompt:
            # A question on the terminal would stop the run, and mostly nobody would be there to answer it.
            message = f"{BMC_PREFIX}was not read: its password is asked for on the terminal; use `env` or `keyring`"
            return events.BmcReport(subject=node, message=message, answers=False)
        probes = (power.PROBE, log.PROBE)
        facts = await read_facts(self._fleet.only({name}), self._cluster, probes, only={name})
        return report_of(node, facts[name])


def report_of(node: str, facts: DeviceFacts) -> events.BmcReport:
    """Return what the BMC of a node reported, in a sentence."""
    state, newest = facts.read(power.PROBE), facts.read(log.PROBE)
    if not isinstance(state, Known):
        reason = facts.failure.reason if facts.failure else state.reason
        return events.BmcReport(subject=node, message=f"{BMC_PREFIX}does not answer: {reason}", answers=False)
    message = describe_state(state.facts, newest.facts if isinstance(newest, Known) else None)
    return events.BmcReport(subject=node, message=message, power=state.facts.power)
