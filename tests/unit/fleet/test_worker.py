"""Functions in a separate process: their deadlines hold, no matter what they do."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from railbed.fleet import Fleet, survey
from railbed.fleet.worker import Call, Failed, Returned, Worker
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.transport.base import targets_of
from railbed.transport.local import connect_local

SLOW = re.compile(r"(a+)+b")


def slow(_: object) -> object:
    return SLOW.match("a" * 60)  # for longer than anybody lives, and without a chance to interrupt it


def recurse(text: object) -> object:
    return recurse(text)


FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "double": lambda text: text * 2,
    "slow": slow,
    "die": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "raise": lambda text: {"there": text}["missing"],
    "recurse": recurse,
    "pid": lambda _: os.getpid(),
}


def call(name: str, argument: object = "x", seconds: float = 60.0) -> Call:
    return Call(name=name, argument=argument, seconds=seconds)


async def test_results_come_in_order() -> None:
    async with Worker(FUNCTIONS) as worker:
        assert await worker.run([call("double", str(number)) for number in range(3)]) == [
            Returned("00"),
            Returned("11"),
            Returned("22"),
        ]
        assert await worker.run([]) == []
        (pid,) = await worker.run([call("pid")])
        assert isinstance(pid, Returned)
        assert pid.value != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid.value, 0)


async def test_what_fails_costs_only_itself() -> None:
    names = ["double", "slow", "double", "die", "raise", "recurse", "double"]
    async with Worker(FUNCTIONS) as worker:
        results = await worker.run([call(name, seconds=0.5 if name == "slow" else 60.0) for name in names])
    assert [type(result) for result in results] == [
        Returned,
        Failed,
        Returned,
        Failed,
        Failed,
        Failed,
        Returned,
    ]
    reasons = [result.reason for result in results if isinstance(result, Failed)]
    assert reasons[:2] == ["took longer than 0.5 s", "ended the process it ran in"]
    assert reasons[2].startswith("failed: KeyError: 'missing' (test_worker.py:")
    assert reasons[3].startswith("failed: RecursionError")


async def test_all_calls_share_a_deadline() -> None:
    async with Worker(FUNCTIONS) as worker:
        results = await worker.run([call("slow")] * 50, seconds=0.5)
    assert len(results) == 50
    assert all(isinstance(result, Failed) for result in results)


async def test_much_text_goes_both_ways() -> None:
    async with Worker(FUNCTIONS) as worker:
        (result,) = await worker.run([call("double", "x" * 4_000_000)])
        assert result == Returned("x" * 8_000_000)


async def test_cancelled_it_leaves_no_process() -> None:
    worker = Worker(FUNCTIONS)
    async with worker:
        (pid,) = await worker.run([call("pid")])
        running = asyncio.create_task(worker.run([call("slow")]))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert isinstance(pid, Returned)
        with pytest.raises(ProcessLookupError):
            os.kill(pid.value, 0)
        assert await worker.run([call("double")]) == [Returned("xx")]


def test_killed_we_leave_no_process() -> None:
    """The process ends when its input does; one that is busy is ended by the kernel after its time."""
    code = (
        "import asyncio, os\nfrom railbed.fleet.worker import Call, Worker\n"
        "async def main():\n"
        "    async with Worker({'pid': lambda _: os.getpid()}) as worker:\n"
        "        (pid,) = await worker.run([Call(name='pid', argument='', seconds=9)])\n"
        "        print(pid.value, flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("it is still there")


async def survey_of(*probes: Probe[str]) -> DeviceFacts:
    cluster = Cluster.model_validate({"name": "x", "nodes": {"a": {"host": "local"}}})
    async with Fleet(targets_of(cluster), connect_local, timeout=20) as fleet:
        (facts,) = [facts async for facts in survey(fleet, cluster, probes)]
    return facts


async def test_a_parser_does_not_outlive_its_command() -> None:
    fine = Probe(name="fine", title="", command="echo fine", parse=str.strip, facts=str)
    much = "head -c 5000 /dev/zero | tr '\\0' x"
    hangs = replace(fine, name="hangs", command=much, parse=lambda text: str(slow(text)), timeout=2.5)
    broken = replace(fine, name="broken", parse=lambda text: text[100])
    facts = await survey_of(hangs, fine, broken)
    reading = facts.read(fine)
    assert isinstance(reading, Known)
    assert reading.facts == "fine"
    assert reading.output.stdout == b"fine\n"
    reading = facts.read(hangs)
    assert isinstance(reading, Unknown)
    assert reading.reason == "railbed's parser of hangs took longer than 2.5 s"
    assert reading.evidence == "x" * 2000
    reading = facts.read(broken)
    assert isinstance(reading, Unknown)
    assert reading.reason.startswith("railbed's parser of broken failed: IndexError")
