"""Checks the nodes again each time the ranks of a training restart, beside the restart itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from railbed.check.changed import Changes, LaunchState, changes_since
from railbed.errors import RailbedError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record, Verdict
from railbed.present.changed import explain_restart
from railbed.present.wording import join_names
from railbed.watch.run import alongside


class RestartChecks:
    """Checks the nodes after each restart; restarts during a check are checked together afterwards."""

    def __init__(self, site: Cluster, fleet: Fleet, before: LaunchState) -> None:
        self._site = site
        self._fleet = fleet
        self._before = before
        self._ended: asyncio.Queue[events.GenerationFailed] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_over = False
        """No restart is checked any more; after a fault of ours, the training continues without."""

    async def beside(self, training: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        """Yield the records of a training, and the findings after each of its restarts."""
        async with aclosing(alongside(self._watch(training), self._check(), what="checking")) as records:
            async for record in records:
                yield record

    async def _watch(self, training: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        """Yield the records of a training; the check of its last restart is completed even if it gives up."""
        async with aclosing(training) as records:
            try:
                async for record in records:
                    if isinstance(record, events.GenerationFailed) and not (record.is_planned or self._is_over):
                        self._idle.clear()
                        self._ended.put_nowait(record)
                    yield record
            except RailbedError:
                await self._idle.wait()
                raise
            await self._idle.wait()

    async def _check(self) -> AsyncGenerator[Record, None]:
        try:
            while True:
                restart = await self._ended.get()
                while not self._ended.empty():
                    restart = self._ended.get_nowait()
                changes = await changes_since(self._before, self._site, self._fleet, restart.generation or 0)
                for finding in changes.findings:
                    yield finding
                yield self._event(changes, restart)
                if self._ended.empty():
                    self._idle.set()
        finally:
            self._is_over = True
            self._idle.set()

    def _event(self, changes: Changes, restart: events.GenerationFailed) -> events.RestartChecked:
        return events.RestartChecked(
            message=self._message(changes, restart),
            generation=restart.generation or 0,
            failed=sum(finding.verdict is Verdict.FAIL for finding in changes.findings),
            compared=self._before.is_known,
            unread=changes.unread,
            seconds=round(changes.seconds, 3),
        )

    def _message(self, changes: Changes, restart: events.GenerationFailed) -> str:
        silent = f"{join_names(changes.unread)} did not answer" if changes.unread else ""
        if changes.findings:
            explanation = explain_restart(changes.findings, restart.subject, restart.message)
            return "; ".join(filter(None, [explanation, silent]))
        if len(changes.unread) == len(self._site.nodes):
            return f"the configuration could not be checked: {silent}"
        where = " on the other nodes" if changes.unread else ""
        since = f"nothing has changed{where} since the launch" if self._before.is_known else f"nothing failed{where}"
        return "; ".join(filter(None, [f"the configuration was checked: {since}", silent]))
