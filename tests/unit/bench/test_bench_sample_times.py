"""How many samples a latency test takes: as many as fit into the seconds of its step, learnt with few calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from railbed.bench import trials
from railbed.bench.exchange import Assignment, Measured, NotMeasured
from railbed.bench.schedule import Transfer, Trial
from railbed.bench.site import BenchSite
from railbed.bench.suite import Step
from railbed.bench.tool import FEW_SAMPLES, End, ToolCall, ToolResult, ToolSettings, ToolValue, tool_of
from railbed.bench.trials import BenchProgress, run_trials
from railbed.bench.wrapper import WrappedOutput
from railbed.clusterfile import loads
from railbed.fleet import Fleet
from railbed.model.record import Finding, Measurement, Record

PAIR, PAIRS = (("a", "b"),), (("a", "b"), ("c", "d"))
FAST, EMULATED = 2e-6, 0.05
"""Seconds of half a round trip."""
LIMIT = 30.0
"""Seconds after which a call is ended here."""


def trial(ways: Sequence[tuple[str, str]] = PAIR, size: int = 2, **step: object) -> Trial:
    """Return a latency trial between nodes."""
    made = Step.model_validate({"test": "ib_write_lat", **step})
    flows = []
    for source, target in ways:
        first, second = End(node=source, rail="r"), End(node=target, rail="r")
        settings = ToolSettings(size=size, samples=made.samples, seconds=made.seconds)
        call = ToolCall(test=made.test, client=first, server=second, settings=settings)
        flows.append(Transfer(source=first, target=second, call=call))
    return Trial(number=1, step=made, tool=tool_of()[made.test], flows=tuple(flows))


async def run(
    monkeypatch: pytest.MonkeyPatch, every: Sequence[Trial], half_trips: Mapping[str, float]
) -> tuple[list[list[int]], list[Record]]:
    """Run trials whose half round trip is known by sender; return the samples of each call, and the records."""
    calls: list[list[int]] = []

    async def measured_together(_: Fleet, jobs: Sequence[Assignment]) -> list[Measured | NotMeasured]:
        calls.append([job.call.settings.samples for job in jobs])
        return [outcome(job) for job in jobs]

    def outcome(job: Assignment) -> Measured | NotMeasured:
        half, samples = half_trips[job.call.client.node], job.call.settings.samples
        if 2 * half * samples > LIMIT:
            return NotMeasured(reason="too slow", node="a", tries=2 if job.has_many_samples else 1)
        value = ToolValue(name="half_round_trip", value=half * 1e6, unit="us", labels={"stat": "p50"})
        reading = ToolResult(values=(value,), samples=(half * 1e6,) * samples)
        return Measured(reading=reading, client=WrappedOutput(output=""))

    monkeypatch.setattr(trials, "run_together", measured_together)
    site = BenchSite(
        cluster=loads("name: c\nnodes: {a: {host: a}}\n", name="c.yaml"), ports=(), failed={}, used={}, gpus={}
    )
    fleet = Fleet([], lambda _: pytest.fail("nobody is asked"), timeout=1.0)
    return calls, [record async for record in run_trials(fleet, every, BenchProgress(site=site, first_port=20500))]


def counts(records: Sequence[Record]) -> list[float]:
    """Return the recorded numbers of samples."""
    return [record.value for record in records if isinstance(record, Measurement) and record.name == "samples"]


async def test_a_fast_path_takes_all_samples_after_one_short_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, records = await run(monkeypatch, [trial(), trial(size=4096), trial()], {"a": FAST})
    assert calls == [[FEW_SAMPLES], [5000], [5000], [5000]]
    assert counts(records) == [5000, 5000, 5000]


async def test_a_slow_path_takes_as_many_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, records = await run(monkeypatch, [trial(), trial(seconds=30.0), trial()], {"a": EMULATED})
    assert calls == [[FEW_SAMPLES], [300], [20]], "20 samples of 100 ms fit into 2 s: the first call is enough"
    assert counts(records) == [FEW_SAMPLES, 300, 20]


async def test_a_suite_that_takes_few_samples_needs_no_further_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, records = await run(monkeypatch, [trial(samples=10)], {"a": FAST})
    assert (calls, counts(records)) == ([[10]], [10])


async def test_larger_messages_are_learnt_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, _ = await run(monkeypatch, [trial(), trial(size=2**18), trial(size=2**18)], {"a": FAST})
    assert calls == [[FEW_SAMPLES], [5000], [FEW_SAMPLES], [5000], [5000]]


async def test_flows_that_run_together_take_equally_many(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, records = await run(monkeypatch, [trial(PAIRS)], {"a": FAST, "c": 0.005})
    assert calls == [[FEW_SAMPLES] * 2, [200, 200]]
    assert counts(records) == [200, 200]


async def test_a_path_far_slower_than_the_others_is_learnt_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not end in time with as many samples as fit elsewhere, and is measured with fewer."""
    calls, records = await run(monkeypatch, [trial(), trial((("c", "d"),))], {"a": FAST, "c": EMULATED})
    assert calls == [[FEW_SAMPLES], [5000], [5000], [FEW_SAMPLES]]
    assert counts(records) == [5000, FEW_SAMPLES]
    assert not [record for record in records if isinstance(record, Finding)]


async def test_a_path_on_which_nothing_ends_in_time_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, records = await run(monkeypatch, [trial()], {"a": 10.0})
    assert calls == [[FEW_SAMPLES]]
    assert [record.observed for record in records if isinstance(record, Finding)] == ["too slow"]


async def test_a_tool_that_keeps_to_a_pace_needs_no_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    ping = replace(trial(test="ping"), tool=tool_of()["ping"])
    calls, _ = await run(monkeypatch, [ping], {"a": FAST})
    assert calls == [[5000]]


@pytest.mark.parametrize("size", [2, 2**18])
@pytest.mark.parametrize("samples", [5000, 1_000_000])
def test_the_time_of_every_latency_call_is_limited(size: int, samples: int) -> None:
    (flow,) = trial(size=size, samples=samples).flows
    assert Assignment(tool=tool_of()["ib_write_lat"], call=flow.call, key="x").seconds <= 60


def test_slow_nodes_are_announced_as_slow() -> None:
    quick = trial()
    slow = replace(quick, start_seconds=7.0)
    assert (quick.seconds, slow.seconds) == (1.5, 9.0)
