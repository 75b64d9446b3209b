"""Servers and clients as real processes on this machine: how a trial handles each that goes wrong."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Callable

import pytest
from tests.support.benchsite import processes_with
from tests.support.ports import free_port

from railbed.bench import exchange
from railbed.bench.exchange import Assignment, Measured, NotMeasured, run_together
from railbed.bench.tool import End, Tool, ToolCall, ToolResult, ToolSettings, ToolTest, ToolValue
from railbed.errors import ParseError
from railbed.fleet import Fleet
from railbed.model.reading import LATE, Output
from railbed.transport.base import Target
from railbed.transport.local import connect_local

SERVE = """
import socket, sys
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
peer, _ = server.accept()
peer.sendall(b'42')
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes get little time to end."""
    monkeypatch.setattr(exchange, "GOODBYE_SECONDS", 0.5)


ASK = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(9).decode())"


def python(script: str) -> Callable[[ToolCall], str]:
    return lambda call: f"exec {sys.executable} -c {shlex.quote(script)} {call.port}"


def parse(text: str) -> ToolResult:
    if not text.strip().isdigit():
        raise ParseError("no number", line=text.strip())
    return ToolResult(values=(ToolValue(name="answer", value=float(text), unit="1"),))


def tool(**changes: object) -> Tool:
    fields = {
        "name": "toy",
        "title": "a toy",
        "package": "toys",
        "tests": {"toy": ToolTest(title="a toy", program="sh")},
        "client": python(ASK),
        "server": python(SERVE),
        "parse": parse,
    }
    return Tool(**{**fields, **changes})  # type: ignore[arg-type]


async def run(made: Tool, *ports: int) -> list[Measured | NotMeasured]:
    targets = [Target(name=name, host="local") for name in ("one", "two")]
    async with Fleet(targets, connect_local) as fleet:
        jobs = [
            Assignment(
                tool=made,
                call=ToolCall(test="toy", client=End(node="one"), server=End(node="two"), port=port),
                key=f"toy.{number}",
            )
            for number, port in enumerate(ports)
        ]
        return await run_together(fleet, jobs)


async def test_a_server_is_awaited_and_asked_and_both_processor_times_are_reported() -> None:
    (outcome,) = await run(tool(), free_port())
    assert isinstance(outcome, Measured), outcome
    assert [value.value for value in outcome.reading.values] == [42]
    assert outcome.client.cpu_seconds is not None
    assert outcome.server is not None


async def test_a_server_that_never_listens_is_reported_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "READY_SECONDS", 1.0)
    (outcome,) = await run(tool(server=lambda _: "exec sleep 1234.5"), 20999)
    assert isinstance(outcome, NotMeasured)
    assert "did not listen on port 20999 within 1 s" in outcome.reason
    assert (outcome.node, outcome.lost, outcome.retry) == ("two", False, False)
    assert processes_with("sleep 1234.5") == []


async def test_a_program_that_is_not_installed_is_named_with_its_package() -> None:
    tests = {"toy": ToolTest(title="a toy", program="no-such-program")}
    (outcome,) = await run(tool(tests=tests), free_port())
    assert isinstance(outcome, NotMeasured)
    assert (outcome.reason, outcome.missing) == ("no-such-program is not installed on two", True)
    assert outcome.remedy == "install the package toys there"


async def test_a_port_in_use_asks_for_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (outcome,) = await run(tool(), taken.getsockname()[1])
    assert isinstance(outcome, NotMeasured)
    assert outcome.retry, outcome


async def test_a_client_that_fails_tells_why_and_its_server_is_ended() -> None:
    client = "echo 'no route' >&2; exit 3"
    (outcome,) = await run(tool(client=lambda _: client), port := free_port())
    assert isinstance(outcome, NotMeasured)
    assert outcome.reason == "sh on one: no route"
    assert processes_with(f"{SERVE.strip()[:20]} {port}") == []


async def test_a_clock_that_cannot_be_measured_is_reported_in_words_and_tried_again() -> None:
    client = "echo 'Correlation coefficient r^2: 0.69 < 0.9' >&2; echo none"
    (outcome,) = await run(tool(client=lambda _: client), free_port())
    assert isinstance(outcome, NotMeasured)
    assert outcome.reason == "sh on one: it could not measure the processor's clock"
    assert (outcome.retry, "too busy" in outcome.remedy) == (True, True)


async def test_what_moved_nothing_in_its_time_is_tried_again() -> None:
    def moved_nothing(text: str) -> ToolResult:
        raise ParseError("perftest measured nothing", line=text.strip())

    (outcome,) = await run(tool(parse=moved_nothing), free_port())
    assert isinstance(outcome, NotMeasured)
    assert "perftest measured nothing" in outcome.reason
    assert (outcome.retry, "more `seconds`" in outcome.remedy) == (True, True)


async def test_what_a_client_printed_must_be_understood() -> None:
    (outcome,) = await run(tool(client=lambda _: "echo forty-two"), free_port())
    assert isinstance(outcome, NotMeasured)
    assert "no number" in outcome.reason


async def test_one_of_many_that_fails_leaves_the_others() -> None:
    """The middle one's port is taken; all three run at the same time."""
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        outcomes = await run(tool(), free_port(), taken.getsockname()[1], free_port())
    assert [isinstance(outcome, Measured) for outcome in outcomes] == [True, False, True], outcomes


def test_a_latency_of_many_samples_may_take_longer_than_one_of_few() -> None:
    """Between emulated machines a sample takes milliseconds."""
    tests = {"toy": ToolTest(title="a toy", program="sh", latency=True)}

    def longest(samples: int) -> float:
        end = End(node="one")
        call = ToolCall(test="toy", client=end, server=end, settings=ToolSettings(samples=samples))
        return Assignment(tool=tool(tests=tests), call=call, key="toy").seconds

    assert longest(1000) - longest(100) == pytest.approx(9.0)
    assert longest(1_000_000) == longest(5000) == pytest.approx(longest(0) + exchange.MOST_TIMES * 2.0)


@pytest.mark.parametrize(("latency", "samples", "tries"), [(True, 21, 2), (True, 20, 1), (False, 21, 1)])
def test_a_call_that_takes_too_long_is_tried_again_if_it_can_take_fewer_samples(
    latency: bool, samples: int, tries: int
) -> None:
    tests = {"toy": ToolTest(title="a toy", program="sh", latency=latency)}
    end = End(node="one")
    call = ToolCall(test="toy", client=end, server=end, settings=ToolSettings(samples=samples))
    late = Output(
        device="one", key="toy", command="toy", stdout=b"", exit=None, sent=0.0, received=9.0, failure=f"{LATE} 9 s"
    )
    outcome = exchange.read_output(Assignment(tool=tool(tests=tests), call=call, key="toy"), late)
    assert isinstance(outcome, NotMeasured)
    assert (outcome.reason, outcome.tries) == (f"sh on one: {LATE} 9 s", tries)
