"""Lines of an output: what surrounds it is left out, what a parser does not know is kept."""

from __future__ import annotations

import re

import pytest

from railbed.errors import ParseError
from railbed.parsing.lines import Lines


@pytest.mark.parametrize(
    "line",
    [
        "switch# show interface",
        "N95_1(config-if)# exit",
        "leaf-1.dc2>",
        "root@gpu1:~# ethtool -S eth1",
        "ada@gpu1:/tmp$ ls",
        "[root@gpu1 ~]# rdma link",
        "$ rdma link",
        "  show interface ethernet 1/1-4",
        " --More-- ",
        "<--- More --->",
        "-- More -- (45%)",
        "=======",
        "** WARNING: connection is not using a post-quantum key exchange algorithm.",
        "Last login: Thu Nov 19 20:00:00 2026 from 192.0.2.1",
        "2026 Nov 19 20:50:00 leaf1 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/1 is down",
    ],
)
def test_what_surrounds_an_output_is_left_out(line: str) -> None:
    lines = Lines(f"{line}\nEthernet1/1 is up\n{line}")
    assert list(lines) == ["Ethernet1/1 is up"]
    assert lines.not_understood == ()


@pytest.mark.parametrize(
    "line",
    [
        "10.8.0.11@o2ib:/lfs2  730144440320  98304225280 631840215040  14% /lustre",
        "QoS-Group# Bandwidth% PrioLevel",
        "    note_count: 5",
        "mlx5_0/ports/1/state:4: ACTIVE",
        "  # a comment of a file",
    ],
)
def test_lines_that_look_similar_remain(line: str) -> None:
    assert list(Lines(line)) == [line]


@pytest.mark.parametrize("wiped", ["\x08" * 8 + " " * 8 + "\x08" * 8, "\r        \r", "\x1b[K\r        \r"])
def test_a_pager_leaves_no_trace_in_the_line_that_it_delayed(wiped: str) -> None:
    assert list(Lines(f"Ethernet1/1 is up\n--More--{wiped}  MTU 9216 bytes\r\n")) == [
        "Ethernet1/1 is up",
        "  MTU 9216 bytes",
    ]


def test_json_is_cut_out_of_what_surrounds_it() -> None:
    assert Lines('[root@gpu1 ~]# rdma -j link\n[{"ifname":\n"mlx5_0"}]\n[root@gpu1 ~]# ').json == (
        '[{"ifname":\n"mlx5_0"}]'
    )
    assert Lines("link mlx5_0/1 [x]").json == ""


def test_sections_share_the_lines_that_are_not_understood() -> None:
    lines = Lines("a banner\n==> eth1 <==\nknown\nodd\n==> eth2 <==\nodder\n")
    for _, part in lines.sections():
        for line in part:
            if line != "known":
                part.unknown(line)
    assert lines.not_understood == ("a banner", "odd", "odder")
    lines.require_known("expected something")


def test_an_output_without_a_known_line_is_refused() -> None:
    lines = Lines("odd\nodder")
    for line in lines:
        lines.unknown(line)
    with pytest.raises(ParseError, match="expected something: 'odd'"):
        lines.require_known("expected something")
    with pytest.raises(ParseError, match="expected more: 'odd'"):
        lines.require([], "expected more")


def test_only_the_first_line_of_a_form_counts() -> None:
    lines = Lines("a banner\n17\n18\nanother")
    match = lines.first(re.compile(r"\d+"))
    assert match is not None
    assert match[0] == "17"
    assert lines.not_understood == ("a banner", "18", "another")


def test_a_line_whose_value_cannot_be_read_is_kept() -> None:
    lines = Lines("1\nx")
    for line in lines:
        with lines.reading(line):
            if not line.isdecimal():
                raise ParseError("expected a number", line=line)
    assert lines.not_understood == ("x",)
