"""`check --all` shows which outputs have lines that railbed does not understand; without it, they are only recorded."""

from __future__ import annotations

import pytest

from railbed.check.run import device_read
from railbed.cli.screens.text import TextScreen
from railbed.model.events import DeviceRead
from railbed.model.reading import DeviceFacts, Output
from railbed.probes import rdma_link
from railbed.probes.outputs import parse_output

LINK = b"link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth1\n"
ADDED = b"a line of a later release\n"


def event(stdout: bytes) -> DeviceRead:
    output = Output(device="gpu1", key="rdma_link", command="rdma link", stdout=stdout, exit=0, sent=0.0, received=0.1)
    reading = parse_output(rdma_link.PROBE, output)
    read = device_read(DeviceFacts(device="gpu1", readings={"rdma_link": (reading,)}))
    assert isinstance(read, DeviceRead)
    return read


def test_the_event_has_the_lines() -> None:
    assert event(LINK + ADDED).not_understood == {"rdma_link": ("a line of a later release",)}
    assert event(LINK).not_understood is None


@pytest.mark.parametrize("verbose", [True, False])
def test_only_all_shows_them(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    TextScreen(verbose=verbose).show(event(LINK + ADDED))
    shown = " ".join(capsys.readouterr().err.split())
    assert ("gpu1: 1 line of rdma_link not understood, such as 'a line of a later release'" in shown) is verbose
