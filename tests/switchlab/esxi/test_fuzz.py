"""Any text gets an answer; no text raises or hangs."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchlab.esxi.commands.esxcli import COMMANDS
from switchlab.esxi.model.description import read_description
from switchlab.esxi.model.release import RELEASES
from switchlab.esxi.servers.control import HostControl
from switchlab.esxi.shell.filters import FILTERS, run_filter
from switchlab.esxi.shell.patterns import BadPattern, compile_pattern
from switchlab.esxi.shell.programs import PROGRAMS
from switchlab.esxi.shell.syntax import ShellFault, parse
from tests.support.growth import superlinear
from tests.switchlab.esxi.support import SITE, host, type_in

WORDS = [
    *(f"esxcli {words}" for words in COMMANDS),
    *PROGRAMS,
    *FILTERS,
    *("vmnic3", "-n", "-n vmnic3", "-m nmlx5_core", "-p", "--formatter=json", "-l", "-g", "-e", "cat", "true", "9000"),
    *("/net/pNics/vmnic3/stats", "/net/sriov/vmnic3/vfs/0/stats", "-pe", "get", "/var/log/vmkernel.log", "--help"),
    *(
        "|",
        ";",
        "&&",
        "||",
        "'",
        '"',
        "$(",
        ")",
        "$?",
        "for",
        "in",
        "do",
        "done",
        "2>&1",
        ">",
        "&",
        "#",
        "=",
        "٣",
        "a=b",
    ),
    *("{print $1}", "s/a/b/", "[", "\\", "^", "*", "-E", "(a|b)+", "1,$p", "-99999999999999999999"),
]
lines = st.one_of(st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join), st.text(max_size=120))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80)
@given(st.sampled_from(sorted(RELEASES)), st.lists(lines, max_size=5))
def test_every_line_gets_an_answer(release: str, typed: list[str]) -> None:
    machine = host(release=release)
    for line in typed:
        out, errors, status = type_in(machine, line)
        assert isinstance(out + errors, str)
        assert 0 <= status < 256
        json.dumps(machine.stored)


@settings(max_examples=60)
@given(st.sampled_from(sorted(FILTERS)), st.lists(st.sampled_from(WORDS) | st.text(max_size=12), max_size=4), st.text())
def test_every_filter_gets_an_answer(name: str, arguments: list[str], text: str) -> None:
    run_filter(name, arguments, text)


@settings(max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"do": st.sampled_from(sorted(HostControl(host())._actions))},
            optional={
                "nic": st.just("vmnic3") | json_values,
                "vm": st.just("vm1") | json_values,
                **dict.fromkeys(
                    ("on", "mode", "up", "mbps", "frames", "priority", "direction", "bytes", "amount"), json_values
                ),
                "counter": st.sampled_from(["rxbytes", "vf0.rxUnicastBytes"]) | json_values,
                "per_second": st.integers(-(10**6), 10**6),
                "seconds": st.integers(0, 10**6),
                "command": st.text(max_size=5),
            },
        )
        | json_values,
        max_size=6,
    )
)
def test_every_control_request_gets_an_answer(requests: list[object]) -> None:
    """No request breaks the control socket, nor the commands afterwards."""
    machine = host()
    control = HostControl(machine)
    for request in requests:
        json.dumps(control.perform(request))
    for line in ("esxcli network nic list", "vsish -e cat /net/pNics/vmnic3/stats", "lspci -p", "uptime"):
        type_in(machine, line)


@given(st.dictionaries(st.sampled_from([*SITE, "passthrough", "distributed", "x"]), json_values) | json_values)
def test_every_description_is_read_or_refused(value: object) -> None:
    with suppress(ValueError):
        read_description(json.dumps(value))


@given(st.text(max_size=40), st.booleans())
def test_patterns_are_compiled_or_refused(pattern: str, extended: bool) -> None:
    with suppress(BadPattern):
        compile_pattern(pattern, extended=extended).search("a line")


@pytest.mark.parametrize("piece", ["a ", "'", '"', "$(", "$a", ";", "a;", "for ", "\\", "2>", "|a", "# "])
def test_a_long_line_takes_linear_time(piece: str) -> None:
    def read(text: str) -> None:
        with suppress(ShellFault):
            parse(text)

    assert not superlinear(read, lambda length: piece * (length // len(piece)))
