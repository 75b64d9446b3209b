"""Real device output stored beside the project: `railbed parse` reads each file with a probe."""

from __future__ import annotations

import json
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from railbed.api.verbs.parse import parse
from railbed.cli.main import run
from railbed.errors import UsageError
from railbed.parsing.lines import TextFacts
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
FIELD_PROBE_OF = {
    "nxos/field/interface_suspended_lacp*": "nexus_interface",
    "nxos/field/show_interface__*": "nexus_interface",
    "nxos/field/show_interface_transceiver_details__*": "nexus_transceiver",
    "nxos/field/show_mac_address-table__*": "nexus_mac_table",
    "nxos/field/rdma_statistic__*": "rdma_statistic",
    "nxos/field/running_*": "nexus_running_qos",
    "links/nxos_show_interface_transceiver_details__*": "nexus_transceiver",
    "links/ethtool_grep_fec_auto__*": "ethtool",
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
    reader = all_readers()[READER_OF[path.stem]]
    begun = time.thread_time()
    reader.read(path.read_bytes().decode("utf-8", "replace"))
    assert time.thread_time() - begun < 1.0


def test_every_host_file_is_there() -> None:
    assert len(list((FIXTURES / "host").glob("*.txt"))) >= 13


def facts_of(name: str) -> dict[str, Any]:
    """Return the facts of a file in the field or links folder, as JSON."""
    probe = next(probe for pattern, probe in FIELD_PROBE_OF.items() if fnmatch(name, pattern))
    facts = parse(probe, FIXTURES / name)
    assert isinstance(facts, TextFacts)
    assert not facts.not_understood
    return dict(to_jsonable_python(facts))


@pytest.mark.parametrize("form", ["burst_optimized", "nonecn", "receive"])
def test_running_configurations_of_the_field(form: str) -> None:
    facts = facts_of(f"nxos/field/running_{form}.cfg")
    policies = {policy["type"]: policy["classes"][0] for policy in facts["policies"]}
    assert policies["qos"]["qos_group"] == 3
    assert policies["network-qos"]["pause"] == [3]
    wred = policies["queuing"]["wred"]
    assert wred["ecn"] is (form != "nonecn")
    assert (wred["low_kbytes"], wred["high_kbytes"]) == ((150, 1500) if form == "nonecn" else (None, None))
    assert policies["queuing"]["priority"] == 1
    assert facts["system"] == {"network-qos": "QOS_NETWORK"}
    port = facts["ports"]["Ethernet1/1/2"]
    assert port["mode"] == "on"
    assert port["policies"] == {"qos input": "QOS_MARKING", "queuing output": "RDMA_ECN_OUT"}


def test_a_suspended_port_of_the_field() -> None:
    ports = facts_of("nxos/field/interface_suspended_lacp.txt")["ports"]
    assert list(ports) == ["Ethernet1/1", "Ethernet1/2"]
    first, second = ports["Ethernet1/1"], ports["Ethernet1/2"]
    assert (first["counters"]["crc"], first["counters"]["rx_packets"]) == (2_211_122, 6_392_635)
    assert (second["up"], second["enabled"], second["counters"]["crc"]) == (False, True, 777)
    assert second["reason"] == "suspended(no LACP PDUs)"


def test_seventy_ports_of_the_field() -> None:
    ports = facts_of("nxos/field/show_interface__70_ports.txt")["ports"]
    assert len(ports) == 70
    assert ports["Ethernet1/13"]["reason"] == "suspended(no LACP PDUs)"
    assert not ports["Ethernet1/6"]["enabled"]


def test_a_mac_table_of_the_field() -> None:
    entries = facts_of("nxos/field/show_mac_address-table__n7k.txt")["entries"]
    assert [entry["vlan"] for entry in entries] == [None, None, 301, 440]
    assert entries[2]["port"] == "sup-eth1(R)"
    assert entries[3]["port"] == "vPC Peer-Link(R)"
    assert not any(entry["learned"] for entry in entries)


def test_optional_counters_of_the_field() -> None:
    counters = facts_of("nxos/field/rdma_statistic__optional_set.txt")["links"]["rocep8s0f0/1"]
    assert counters["cc_rx_ce_pkts"] == 0
    assert len(counters) == 29
    assert not any("Optional" in name for name in counters)


@pytest.mark.parametrize(
    ("name", "port", "part"),
    [
        ("100g_psm4_low_warning", "Ethernet1/50", "LUX42604BO"),
        ("10g_rx_missing", "Ethernet1/26", "FTLX8570D3BCL-C2"),
        ("400g_dac", "Ethernet1/1", "L45593-K218-C20"),
        ("400g_dr4_no_light", "Ethernet1/63", "T-DP4CNH-NCI"),
        ("mixed_azure_tor", "Ethernet1/17", "S1S10F-V05.0M13"),
    ],
)
def test_modules_of_switches(name: str, port: str, part: str) -> None:
    ports = facts_of(f"links/nxos_show_interface_transceiver_details__{name}.txt")["ports"]
    assert ports[port]["part"] == part
    if name == "mixed_azure_tor":
        assert ports["Ethernet1/33"] is None
        assert ports["Ethernet1/49"]["type"] == "QSFP-100G-CR4"


def test_capabilities_are_not_transceivers() -> None:
    with pytest.raises(UsageError, match="no port with or without a transceiver"):
        parse("nexus_transceiver", FIXTURES / "links" / "nxos_show_interface_capabilities__93180yc-ex.txt")


def test_every_file_of_the_field_is_tested() -> None:
    files = [path.relative_to(FIXTURES).as_posix() for path in (FIXTURES / "nxos" / "field").iterdir()]
    assert all(any(fnmatch(name, form) for form in FIELD_PROBE_OF) for name in files if not name.endswith("README.md"))
    facts_of("nxos/field/show_interface_transceiver_details__1.txt")
