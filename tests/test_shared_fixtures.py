"""Real device output stored beside the project: `railbed parse` reads each file with a probe."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from railbed.cli.main import run
from tests.support.readers import all_readers

FIXTURES = Path(__file__).parent.parent.parent / "shared" / "fixtures"
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")]

PROBE_OF = {
    "dcb_app_show__*": "dcb_app",
    "dcb_pfc_show__*": "dcb_pfc",
    "ethtool_S__*": "ethtool_stats",
    "hw_counter_names__*": "counter_names",
    "ibstat__*": "ibstat",
    "ibv_devinfo_*": "ibv_devinfo",
    "mlnx_qos_*": "mlnx_qos",
    "mlx5_debugfs_cc_params__names*": "dcqcn",
    "rdma_statistic_show__*": "rdma_statistic",
}
NEXUS_PROBE_OF = {
    "captured/*_show_interface_priority-flow-control__*": "nexus_pfc",
    "captured/*_show_queuing_interface*": "nexus_queuing",
    "captured/*_show_queuing_summary*": "nexus_queuing",
    "captured/*_show_queuing_pfc-queue_detail__*": "nexus_watchdog",
    "captured/*_show_policy-map_interface*": "nexus_policy_interface",
    "captured/*_show_interface_breakout_pause*": "nexus_interface",
    "interface/ShowInterface__*": "nexus_interface",
    "interface/ShowVersion__*": "nexus_version",
    "interface/ShowLldpNeighborsDetail__*": "nexus_lldp",
    "interface/ShowInventory__*": "nexus_inventory",
    "interface/ShowInterfaceCountersErrors__*": "nexus_errors",
    "json/nxapi_show_interface_counters_errors*": "nexus_errors",
    "json/show_interface_eth1_1__json*": "nexus_interface",
    "config/*.cfg": "nexus_running_qos",
}
SYSFS_PROBES = ("infiniband", "infiniband_counters")


def parsed(probe: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = run(["parse", probe, str(path)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert json.loads(captured.out)["facts"]
    return captured.out


@pytest.mark.parametrize("path", sorted((FIXTURES / "host").glob("*.txt")), ids=lambda path: path.stem)
def test_host_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probes = [probe for pattern, probe in PROBE_OF.items() if path.match(pattern)]
    assert len(probes) == 1, "no probe is named for this file"
    parsed(probes[0], path, capsys)


@pytest.mark.parametrize(("pattern", "probe"), sorted(NEXUS_PROBE_OF.items()))
def test_nexus_output(pattern: str, probe: str, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted((FIXTURES / "nxos").glob(pattern))
    assert paths
    for path in paths:
        parsed(probe, path, capsys)


def test_pfc_bitmaps_are_hexadecimal(capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "nxos" / "captured" / "ale_show_interface_priority-flow-control__synthetic_numbers.txt"
    assert json.loads(parsed("nexus_pfc", path, capsys))["facts"]["ports"]["Ethernet1/2"]["priorities"] == [0, 3]


def test_drops_of_a_slice_are_not_those_of_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "nxos" / "captured" / "n9k_show_queuing_interface_e1_51__ingress.txt"
    port = json.loads(parsed("nexus_queuing", path, capsys))["facts"]["ports"]["Ethernet1/51"]
    assert port["ingress"]["overflow_drop_packets"] == 19490
    assert port["pauses"]["5"] == {"sent": 150, "received": 0}
    assert port["queues"]["5"]["no_drop"]


@pytest.mark.parametrize("probe", SYSFS_PROBES)
@pytest.mark.parametrize("device", ["mlx4_0", "mlx5_0"])
def test_sysfs_tree(probe: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert device in parsed(probe, FIXTURES / "sysfs" / device, capsys)


READER_OF = {
    "ping_mtu__slow": "probe ping_mtu",
    "iperf3__no_role": "tool iperf3",
    "perftest__slow": "tool perftest",
    "cluster__assertion.yaml": "cluster file",
    "cluster__version.yaml": "cluster file",
    "cluster__slow.yaml": "cluster file",
}


@pytest.mark.parametrize("path", sorted((FIXTURES / "found").glob("*.txt")), ids=lambda path: path.stem)
def test_what_was_once_read_badly(path: Path) -> None:
    begun = time.thread_time()
    all_readers()[READER_OF[path.stem]].read(path.read_bytes().decode("utf-8", "replace"))
    assert time.thread_time() - begun < 1.0


def test_every_host_file_is_there() -> None:
    assert len(list((FIXTURES / "host").glob("*.txt"))) >= 13
