"""What is tried again: as often as its cause deserves, together with what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from railbed.bench import trials
from railbed.bench.exchange import CLOCK_TRIES, TRIES, Assignment, Measured, NotMeasured
from railbed.bench.schedule import Transfer, Trial
from railbed.bench.site import BenchSite
from railbed.bench.suite import Step
from railbed.bench.tool import End, ToolCall, ToolResult, ToolValue, tool_of
from railbed.bench.trials import BenchProgress, run_trials
from railbed.bench.wrapper import WrappedOutput
from railbed.clusterfile import loads
from railbed.fleet import Fleet
from railbed.model.record import Finding, Measurement, Record

INCAST, PAIRS = (("b", "a"), ("c", "a")), (("b", "a"), ("c", "d"))


async def run(
    monkeypatch: pytest.MonkeyPatch, ways: Sequence[tuple[str, str]], tries: int, works_from: int
) -> tuple[list[list[str]], list[Record]]:
    """Run a trial whose first flow works from some attempt on; return the nodes of each attempt, and the records."""
    attempts: list[list[str]] = []

    async def measured_together(_: Fleet, jobs: Sequence[Assignment]) -> list[Measured | NotMeasured]:
        attempts.append([job.call.client.node for job in jobs])
        value = ToolValue(name="bandwidth", value=float(len(attempts)), unit="Gb/s")
        done = Measured(reading=ToolResult(values=(value,)), client=WrappedOutput(output=""))
        fails = NotMeasured(reason="its clock", node="b", tries=tries)
        return [fails if job.call.client.node == "b" and len(attempts) < works_from else done for job in jobs]

    monkeypatch.setattr(trials, "run_together", measured_together)
    flows = tuple(_flow(*way) for way in ways)
    trial = Trial(number=1, step=Step(test="iperf3"), tool=tool_of()["iperf3"], flows=flows)
    site = BenchSite(
        cluster=loads("name: c\nnodes: {a: {host: a}}\n", name="c.yaml"), ports=(), failed={}, used={}, gpus={}
    )
    fleet = Fleet([], lambda _: pytest.fail("nobody is asked"), timeout=1.0)
    return attempts, [record async for record in run_trials(fleet, [trial], BenchProgress(site=site, first_port=20500))]


def _flow(source: str, target: str) -> Transfer:
    first, second = End(node=source, rail="r"), End(node=target, rail="r")
    return Transfer(source=first, target=second, call=ToolCall(test="iperf3", client=first, server=second))


@pytest.mark.parametrize("tries", [1, TRIES, CLOCK_TRIES])
async def test_it_is_tried_as_often_as_its_cause_deserves(monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    attempts, records = await run(monkeypatch, PAIRS, tries, works_from=1000)
    assert attempts == [["b", "c"], *[["b"]] * (tries - 1)]
    assert [record.observed for record in records if isinstance(record, Finding)] == ["its clock"]


async def test_what_shares_a_node_is_measured_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, records = await run(monkeypatch, INCAST, TRIES, works_from=2)
    assert attempts == [["b", "c"], ["b", "c"]]
    assert [record.value for record in records if isinstance(record, Measurement)] == [2.0, 2.0]
