"""Checks the nodes again each time the ranks of a training restart, beside the restart itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from railbed.check.changed import Baseline, Changes, changes_since
from railbed.cli.run.alongside import alongside
from railbed.errors import RailbedError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record, Verdict
from railbed.model.text.amount import plural
from railbed.present.changed import describe_change
from railbed.present.wording import listed

MOST_NAMED = 3
"""Changes in the message about a check; there is a finding for each."""


class RestartChecks:
    """Checks the nodes after each restart; restarts during a check are checked together afterwards."""

    def __init__(self, site: Cluster, fleet: Fleet, before: Baseline) -> None:
        self._site = site
        self._fleet = fleet
        self._before = before
        self._ended: asyncio.Queue[int] = asyncio.Queue()
        """Generations that failed."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_over = False
        """No restart is checked any more; after a fault of ours, the training continues without."""

    async def beside(self, training: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        """Yield the records of a training, and the findings after each of its restarts."""
        async with aclosing(alongside(self._watched(training), self._checked(), what="checking")) as records:
            async for record in records:
                yield record

    async def _watched(self, training: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        """Yield the records of a training; the check of its last restart is completed even if it gives up."""
        async with aclosing(training) as records:
            try:
                async for record in records:
                    if isinstance(record, events.GenerationFailed) and not (record.is_planned or self._is_over):
                        self._idle.clear()
                        self._ended.put_nowait(record.generation or 0)
                    yield record
            except RailbedError:
                await self._idle.wait()
                raise
            await self._idle.wait()

    async def _checked(self) -> AsyncGenerator[Record, None]:
        try:
            while True:
                generation = await self._ended.get()
                while not self._ended.empty():
                    generation = self._ended.get_nowait()
                changes = await changes_since(self._before, self._site, self._fleet, generation)
                for finding in changes.findings:
                    yield finding
                yield self._event(changes, generation)
                if self._ended.empty():
                    self._idle.set()
        finally:
            self._is_over = True
            self._idle.set()

    def _event(self, changes: Changes, generation: int) -> events.RestartChecked:
        return events.RestartChecked(
            message=self._message(changes),
            generation=generation,
            failed=sum(finding.verdict is Verdict.FAIL for finding in changes.findings),
            compared=self._before.is_known,
            unread=changes.unread,
            seconds=round(changes.seconds, 3),
        )

    def _message(self, changes: Changes) -> str:
        silent = f"{listed(changes.unread)} did not answer" if changes.unread else ""
        if changes.findings:
            worst = sorted(changes.findings, key=lambda finding: finding.verdict.rank)
            named = [describe_change(finding) for finding in worst[:MOST_NAMED]]
            more = plural(len(worst) - MOST_NAMED, "more finding") if len(worst) > MOST_NAMED else ""
            return f"probable cause: {'; '.join(filter(None, [*named, more, silent]))}"
        if len(changes.unread) == len(self._site.nodes):
            return f"the configuration could not be checked: {silent}"
        since = "nothing has changed since the launch" if self._before.is_known else "nothing failed"
        return "; ".join(filter(None, [f"the configuration was checked: {since}", silent]))
