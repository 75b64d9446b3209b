"""A node may send anything instead of what its recorder would send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.capture.methods import Method
from railbed.capture.recording import PortPlan, RecordingLimits
from railbed.capture.remote import Control, Lost, NodeRecorder
from railbed.model.cluster import Port

TOTALS = b't {"began":1,"ended":2,"ports":{"rail0":{"captured":1,"dropped":0,"reason":"","size":24}}}'
KINDS = st.sampled_from([b"y", b"n", b"t", b"d", b"z", b"e", b"q", b"", b"x"])
ENDS = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"[]", b"{}", b'{"ports":[]}', b'{"ports":{"rail0":1}}', TOTALS])
)


class Remote:
    """A program that takes what is written to it, and sends nothing more."""

    remote = property(lambda self: self)

    async def write(self, _: bytes) -> None:
        """Take it."""

    async def some(self, _: int) -> bytes:
        """Send the end of the output."""
        return b""


def recorder(folder: Path) -> NodeRecorder:
    method = Method(name="kernel", source="rail0", why="")
    plan = PortPlan(node="node1", port=Port(netdev="rail0", rail="rail0", address="10.0.0.1"), method=method)
    control = Control(stop=asyncio.Event())
    return NodeRecorder("node1", "python3", [plan], RecordingLimits(), folder, control)


async def take(folder: Path, *lines: bytes) -> str:
    """Return why the node is lost; empty if it is not."""
    node = recorder(folder)
    output: Any = Remote()
    try:
        for line in lines:
            await node._take(line, output)
    except Lost as lost:
        return str(lost)
    return ""


@given(kind=KINDS, end=ENDS)
async def test_any_line_is_understood_or_ends_the_recording_of_the_node(
    tmp_path_factory: pytest.TempPathFactory, kind: bytes, end: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "remote"
    why = await take(folder, kind + b" " + end)
    assert "\n" not in why
    if kind in (b"n", b"t", b"d", b"", b"x"):
        assert why, (kind, end)


@pytest.mark.parametrize(
    "header",
    ["rail0 -1", "rail0 99999999999999999999999", f"rail0 {'0' * 20}{'9' * 15}", "rail0", "../../etc/x 10", "rail0 ²"],
)
async def test_packets_that_nobody_asked_for_are_not_stored(tmp_path: Path, header: str) -> None:
    assert await take(tmp_path, TOTALS, b"d " + header.encode()) == "its recorder sent something else"
    assert list(tmp_path.iterdir()) == []


async def test_packets_that_end_early(tmp_path: Path) -> None:
    assert await take(tmp_path, TOTALS, b"d rail0 24") == "its recorder ended while it sent packets"
