"""The public interface: a switch as a process, used by an independent client and driven by a test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from netmiko import ConnectHandler

import switchlab
from switchlab import Control, ControlError, RunningSwitch, SwitchFailed

README = Path(switchlab.__file__).parent / "README.md"
PASSWORD = "emulated-only"  # noqa: S105 - of a switch that exists for one test
SECONDS = 60.0
STARTS = """
import sys, time, switchlab
switch = switchlab.start(password="emulated-only")
print(switch.ssh_port, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def switch() -> Iterator[RunningSwitch]:
    with switchlab.start(password=PASSWORD, hostname="leaf1", config="feature lldp\nvlan 250") as running:
        yield running


def show(switch: RunningSwitch, command: str) -> str:
    """Return what a client that knows real switches reads."""
    with ConnectHandler(
        device_type="cisco_nxos", host=switch.host, port=switch.ssh_port, username="admin", password=PASSWORD
    ) as client:
        return str(client.send_command(command))


def test_its_configuration_is_in_force(switch: RunningSwitch) -> None:
    assert "leaf1" in show(switch, "show hostname")
    assert "vlan 1,250" in show(switch, "show running-config")


def test_a_cable_is_seen_by_clients_and_can_be_unplugged(switch: RunningSwitch) -> None:
    switch.control.cable("Ethernet1/7", mac="0c:42:a1:aa:00:07", peer="node7", peer_port="eth1", mbps=10_000)
    assert re.search(r"node7 +Eth1/7", show(switch, "show lldp neighbors"))
    assert "0c42.a1aa.0007" in show(switch, "show mac address-table")
    switch.control.uncable("Ethernet1/7")
    assert "node7" not in show(switch, "show lldp neighbors")


def test_traffic_and_counters(switch: RunningSwitch) -> None:
    for number in (1, 2):
        switch.control.link(f"Ethernet1/{number}", up=True)
    sent = switch.control.carry("Ethernet1/1", "Ethernet1/2", dscp=26, size=8192, packet_size=1024)
    assert sent["sent"] == 8
    switch.control.count("Ethernet1/2", "fcs", 3)
    errors = switch.control.counters("Ethernet1/2")["errors"]
    assert isinstance(errors, dict)
    assert errors["fcs"] == 3


def test_faults(switch: RunningSwitch) -> None:
    switch.control.refuse("show vlan", "ERROR: not today")
    assert "not today" in show(switch, "show vlan")
    switch.control.accept_all()
    assert "not today" not in show(switch, "show vlan")
    switch.control.hold("checkpoint")
    assert switch.control.list_held() == []
    switch.control.release()
    switch.control.cut()


def test_mistakes_are_sentences(switch: RunningSwitch, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="the switch refused link: the switch has no port Ethernet9/9"):
        switch.control.link("Ethernet9/9", up=True)
    with pytest.raises(ControlError, match="the switch does not answer on"):
        Control(tmp_path / "control").accept_all()
    with pytest.raises(SwitchFailed, match=r"the switch rejected .*nonsense"):
        switchlab.start(password=PASSWORD, config="nonsense")
    with pytest.raises(SwitchFailed, match="nobody could log in"):
        switchlab.start()


def test_saved_state_outlives_a_stop(tmp_path: Path) -> None:
    with switchlab.start(password=PASSWORD, state=tmp_path, config="vlan 251"):
        pass
    with switchlab.start(password=PASSWORD, state=tmp_path) as again:
        assert "251" in show(again, "show running-config")
        port = again.ssh_port
    with pytest.raises(ControlError):
        again.control.accept_all()
    assert port
    assert not again.control.path.parent.exists()


def test_it_ends_with_the_process_that_started_it() -> None:
    """Also if that is killed, as a test runner may be."""
    starter = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE)
    assert starter.stdout
    try:
        port = int(starter.stdout.readline())
        (pid,) = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
    finally:
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
        starter.stdout.close()
    deadline = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists() and b"switchlab" in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline, f"the switch on port {port} still runs"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_readme_run(number: int) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 2
    exec(examples[number], {})  # noqa: S102 - our own page
