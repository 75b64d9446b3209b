"""Any text gets an answer; no text raises or hangs."""

from __future__ import annotations

import asyncio
import json
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchlab.nexus.cli.grammar import expand
from switchlab.nexus.cli.pipes import compile_pattern
from switchlab.nexus.commands.loader import parse_config
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.render import render, running_blocks
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.control import ControlService
from switchlab.nexus.servers.nxapi_forms import answer_ins_api, answer_json_rpc
from switchlab.nexus.session import Session, trees_for
from switchlab.nexus.terminal import Keyboard, Terminal
from tests.support.growth import superlinear

WORDS = sorted(
    {
        word
        for command in trees_for(PLATFORMS["n9k"])._commands
        for sequence in expand(command.pattern)
        for word in sequence
        if not word.startswith("<")
    }
)
PATTERNS = [sequence for command in trees_for(PLATFORMS["n9k"])._commands for sequence in expand(command.pattern)]
VALUES = [
    "1",
    "3",
    "26",
    "9216",
    "99999999999999999999",
    "e1/1",
    "ethernet",
    "1/1-4",
    "Ethernet1/1-2,",
    "c-8q-nq3",
    "A",
    "|",
    ";",
]
VALUES += [
    "c-out-8q-q3",
    "class-default",
    "?",
    '"',
    '"a b"',
    "json",
    "include",
    "24-31,46",
    "٣",
    "²",
    "mgmt0",
    "vlan10",
    "-",
    "/",
]
shortened = st.builds(lambda word, length: word[:length], st.sampled_from(WORDS), st.integers(1, 30))


@st.composite
def plausible(draw: st.DrawFn) -> str:
    """A command that follows some pattern, with arguments of any kind."""
    pattern = draw(st.sampled_from(PATTERNS))
    arguments = st.one_of(st.sampled_from(VALUES), st.sampled_from(WORDS))
    return " ".join(draw(arguments) if element.startswith("<") else element for element in pattern)


command_text = st.one_of(
    plausible(),
    st.lists(st.one_of(st.sampled_from(WORDS), shortened, st.sampled_from(VALUES)), max_size=12).map(" ".join),
    st.text(max_size=200),
)
platforms = st.sampled_from(sorted(PLATFORMS))


@settings(max_examples=60)
@given(platforms, st.lists(command_text, max_size=12))
def test_every_command_gets_a_reply(name: str, lines: list[str]) -> None:
    session = Session(Switch(PLATFORMS[name]))
    session.execute("configure terminal")
    for line in lines:
        for command in session.commands(line):
            reply = session.execute(command)
            assert isinstance(reply.text, str)
            assert reply.text or not reply.failed
            if reply.data is not None:
                json.dumps(dict(reply.data))
        session.help(line)
        assert session.prompt.endswith("# ")
    switch = session.context.switch
    config, rejected = parse_config(switch.platform, switch.running_text())
    assert (render(running_blocks(config)), rejected) == (switch.running_text(), [])


@given(st.text(max_size=400), st.booleans())
def test_every_keystroke_is_survived(typed: str, echo: bool) -> None:
    """The terminal reads any input to its end, and stops when the client is gone."""
    session = Session(Switch(PLATFORMS["n9k"]))
    session.context.terminal_length = 5
    chunks = [typed[at : at + 7] for at in range(0, len(typed), 7)]

    async def read() -> str:
        return chunks.pop(0) if chunks else ""

    written: list[str] = []
    asyncio.run(asyncio.wait_for(Terminal(session, Keyboard(read), written.append, echo=echo).run(), 10))
    assert written[0] == "switch# "


@given(st.text(max_size=40), st.text(max_size=80))
def test_patterns_never_raise(pattern: str, line: str) -> None:
    compile_pattern(pattern)(line)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", ".*.*.*.*.*.*.*.*b", "a*a*a*a*a*b", "[a-z]" * 200 + "$", "^.*a.*a$"]
)
def test_a_hostile_pattern_takes_linear_time(pattern: str) -> None:
    """Patterns that make a backtracking matcher take years."""
    assert not superlinear(compile_pattern(pattern), lambda count: "a" * count)


@pytest.mark.parametrize("piece", ["a", ".*a", "[a-z]", "[", "|a", "^"])
def test_a_long_pattern_takes_linear_time(piece: str) -> None:
    """Python keeps what it has compiled: so each is another one."""
    numbers = count()

    def match(length: int) -> None:
        compile_pattern(f"{next(numbers)}{piece * length}")("a" * 200)

    assert not superlinear(match, lambda length: length // len(piece))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "method": st.sampled_from(["cli", "cli_ascii", "x"]),
        "params": st.fixed_dictionaries({"version": st.just(1)}, optional={"cmd": command_text}) | json_values,
        "id": json_values,
        "type": st.sampled_from(["cli_show", "cli_show_ascii", "cli_conf", "bash"]),
        "input": command_text | json_values,
        "output_format": st.sampled_from(["json", "xml"]),
    },
)


@given(requests | json_values)
def test_every_api_request_gets_an_answer(request: object) -> None:
    session = Session(Switch(PLATFORMS["n9k"]))
    session.context.dont_ask = True
    json.dumps(answer_json_rpc(session, request))
    if isinstance(request, dict):
        json.dumps(answer_ins_api(session, request))


control_requests = st.fixed_dictionaries(
    {"do": st.sampled_from(["link", "neighbour", "mac", "add", "carry", "counters", "ping", "x"])},
    optional={
        "port": st.sampled_from(["e1/1", "Ethernet1/1", "x"]) | json_values,
        "port_in": st.just("e1/1"),
        "port_out": st.just("e1/2"),
        "bytes": json_values,
        "dscp": st.integers(),
        "packet_size": json_values,
        "counter": st.sampled_from(["fcs", "tx_packets", "pfc_rx"]) | st.text(max_size=5),
        "amount": json_values,
        "group": json_values,
        "priority": json_values,
        "up": json_values,
        "vlan": json_values,
        "address": json_values,
        "chassis_id": json_values,
        "port_id": json_values,
        "system_name": json_values,
    },
)


@settings(max_examples=30)
@given(st.lists(control_requests | json_values, max_size=6))
def test_every_control_request_gets_an_answer(requests: list[object]) -> None:
    """No request breaks the control socket, nor the show commands afterwards."""
    switch = Switch(PLATFORMS["n9k"])
    control = ControlService(switch)
    for request in requests:
        json.dumps(control.perform(request))
    session = Session(switch)
    session.execute("configure terminal")
    session.execute("feature lldp")
    for command in (
        "show interface e1/1",
        "show queuing interface e1/1",
        "show mac address-table",
        "show lldp neighbors detail",
        "show vlan",
    ):
        session.execute(command)
        session.execute(f"{command} | json")
