"""The emulator compared with real device output and configurations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.counters import Neighbour
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.model.traffic import Packets
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import FIXTURES, config_lines, run

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not FIXTURES.is_dir(), reason="no ../shared/fixtures here")]


def captured(name: str) -> str:
    return (FIXTURES / "captured" / name).read_text()


def shape(text: str) -> list[str]:
    """Return lines with numbers masked and space collapsed: headings, labels, columns and borders remain."""
    masked = re.sub(r"(?<=[\s|:/])\d+(?=[\s|,]|$)", "#", text, flags=re.MULTILINE)
    return [" ".join(line.split()).replace("#|", "# |") for line in masked.splitlines() if line.strip()]


@pytest.fixture
def ale() -> Session:
    """A 9332PQ with a lossless class for priority 3 on port 1."""
    switch = Switch(PLATFORMS["n9k-ale"])
    lines = """feature lldp
    policy-map type network-qos NQ
      class type network-qos c-nq3
        pause pfc-cos 3
        mtu 9216
    system qos
      service-policy type network-qos NQ
    interface Ethernet1/1
      priority-flow-control mode on"""
    assert apply_lines(switch, lines.splitlines()) == []
    switch.set_link("Ethernet1/1", up=True)
    return Session(switch)


@pytest.mark.parametrize("path", sorted((FIXTURES / "config").glob("*.cfg")), ids=lambda path: path.stem)
def test_every_configuration_reads_back(path: Path) -> None:
    """Each line is in the running configuration, or is a default that a Nexus shows only with `all`."""
    switch = Switch(PLATFORMS["n9k"])
    text = path.read_text()
    assert apply_lines(switch, text.splitlines()) == []
    session = Session(switch)
    shown = config_lines(run(session, "show running-config"))
    defaults = config_lines(run(session, "show running-config all")) - shown
    wanted = config_lines(text)
    assert wanted - shown <= defaults
    assert {line[-1] for line in wanted - shown} <= {"no shutdown"}


@pytest.mark.parametrize("path", sorted((FIXTURES / "config").glob("*.cfg")), ids=lambda path: path.stem)
def test_a_reference_configuration_classifies_roce_as_lossless(path: Path) -> None:
    switch = Switch(PLATFORMS["n9k"])
    apply_lines(switch, path.read_text().splitlines())
    switch.set_link("Ethernet1/1", up=True)
    switch.set_link("Ethernet1/2", up=True)
    outcome = switch.carry("Ethernet1/1", "Ethernet1/2", Packets(dscp=26, bytes=40_960))
    # The Azure reference attaches no policy to a port: its interfaces are configured elsewhere.
    complete = "interface" in path.read_text()
    assert (outcome.group, outcome.lossless) == ((3, True) if complete else (0, False))


def test_pfc_table(ale: Session) -> None:
    real = captured("ale_show_interface_priority-flow-control__synthetic_numbers.txt").splitlines()
    emulated = run(ale, "show interface priority-flow-control").splitlines()
    assert emulated[3:6] == real[:3]
    assert re.sub(r"\d+", "#", emulated[6].replace("On   On   (8)", "")).split() == ["Ethernet#/#", "#", "#"]
    off = captured("n9332_show_interface_priority-flow-control__before.txt").splitlines()[3]
    assert emulated[7].replace("1/2 ", "1/27") == off


def test_internal_ports_are_listed_on_ale_boxes(ale: Session) -> None:
    assert "ii1/1/6" in run(ale, "show interface priority-flow-control")
    assert "ii1" not in run(Session(Switch(PLATFORMS["n9k"])), "show interface priority-flow-control")


def test_ale_queuing_layout(ale: Session) -> None:
    real, emulated = (
        shape(text)
        for text in (
            captured("ale_show_queuing_interface__synthetic_numbers.txt"),
            run(ale, "show queuing interface ethernet 1/1"),
        )
    )
    unusual = {"| Tx Pkts | # | Dropped Pkts | # |"}  # two statistics side by side: seen in the synthetic sample only
    missing = [
        re.sub(r"\b(Active)", "Inactive", line.replace("Ethernet2", "Ethernet1"))
        for line in real
        if line not in unusual
    ]
    assert [line for line in missing if line not in emulated] == []


def test_cloudscale_queuing_layouts(lossless: Switch) -> None:
    newer = run(Session(lossless), "show queuing interface e1/1")
    older = run(Session(Switch(PLATFORMS["n9k-9.2"])), "show queuing interface e1/1")
    real = shape(captured("n9k_show_queuing_interface__qos_group_3_9.2.txt"))[:-1]
    assert [line for line in real if line not in shape(older)] == []
    ingress = shape(captured("n9k_show_queuing_interface_e1_51__ingress.txt"))
    assert [line.replace("1/51", "1/1") for line in ingress if line.replace("1/51", "1/1") not in shape(newer)] == []
    assert "| WRED/AFD & Tail Drop Pkts |" in newer
    assert "WRED & Tail Drop Pkts" in older
    assert "ECN" not in older


def test_queuing_summary() -> None:
    emulated = run(Session(Switch(PLATFORMS["n9k"])), "show queuing summary").splitlines()
    real = captured("n9k_show_queuing_summary.txt").splitlines()
    assert [line.rstrip() for line in emulated if line][: len(list(filter(None, real)))] == [
        line.rstrip() for line in real if line
    ]


def test_policy_map_interface() -> None:
    emulated = run(Session(Switch(PLATFORMS["n9k"])), "show policy-map interface e1/1")
    real = captured("n9k_show_policy-map_interface.txt")
    assert shape(emulated)[: len(shape(real))] == shape(real)


def test_pfc_watchdog_box(lossless: Switch) -> None:
    real = shape(captured("ale_show_queuing_pfc-queue_detail__synthetic_numbers.txt"))
    emulated = shape(run(Session(lossless), "show queuing pfc-queue detail"))
    wanted = [line.replace("1/23", "1/1").replace("[Shutdown]", "[Active]") for line in real]
    assert [line for line in wanted if line not in emulated] == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("nxapi_show_interface_counters.json", "show interface counters"),
        ("nxapi_show_interface_counters_errors.json", "show interface counters errors"),
    ],
)
def test_json_counters_have_the_real_keys(session: Session, name: str, command: str) -> None:
    body = json.loads((FIXTURES / "json" / name).read_text())["ins_api"]["outputs"]["output"]["body"]
    emulated = json.loads(run(session, f"{command} | json"))
    for table, content in body.items():
        (rows,) = content.values()
        (own,) = emulated[table].values()
        real_keys = {frozenset(row) for row in rows if "mgmt0" not in row.values()}
        assert real_keys <= {frozenset(row) for row in own}
        assert all(isinstance(value, str) for row in own for value in row.values())


def test_json_interface_has_the_real_keys(session: Session) -> None:
    real = json.loads((FIXTURES / "json" / "show_interface_eth1_1__json.json").read_text())
    emulated = json.loads(run(session, "show interface e1/1 | json"))
    row = emulated["TABLE_interface"]["ROW_interface"]
    optional = {"eth_mdix", "eth_swt_monitor", "eth_eee_state"}
    assert set(real["TABLE_interface"]["ROW_interface"]) - optional <= set(row)
    assert all(isinstance(value, str) for value in row.values())


def test_interface_text_has_the_real_lines(session: Session) -> None:
    real = shape((FIXTURES / "interface" / "ShowInterface__golden3_output.txt").read_text())
    emulated = shape(run(session, "show interface e1/6"))
    differs = re.compile(r"Hardware|MTU|seconds .*rate|input rate|Load-Interval|Rx pause")
    assert [line for line in real if line not in emulated and not differs.search(line)] == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("ShowInterfaceCounters__golden_output1_output.txt", "show interface e1/33 counters"),
        ("ShowInterfaceCountersErrors__golden_output_1_output.txt", "show interface e1/1 counters errors"),
        ("ShowInterfaceStatus__golden1_output.txt", "show interface status"),
    ],
)
def test_tables_have_the_real_columns(session: Session, name: str, command: str) -> None:
    headings = [
        line.split() for line in (FIXTURES / "interface" / name).read_text().splitlines() if line.startswith("Port")
    ]
    emulated = [line.split() for line in run(session, command).splitlines()]
    assert headings
    assert [heading for heading in headings if heading not in emulated] == []


def test_lldp_detail_has_the_real_labels(ale: Session) -> None:
    switch = ale.context.switch
    switch.add_neighbour(
        Neighbour(port="Ethernet1/1", chassis_id="0c42.a1aa.0001", port_id="ens1", system_name="node1")
    )
    real = (FIXTURES / "interface" / "ShowLldpNeighborsDetail__golden_output5_output.txt").read_text()
    labels = {line.split(":")[0] for line in real.split("\n\n")[0].splitlines() if ":" in line}
    own = {line.split(":")[0] for line in run(ale, "show lldp neighbors detail").splitlines()}
    assert labels - own == set()


@pytest.mark.parametrize("number", ["2", "3"])
def test_version_has_the_real_labels(session: Session, number: str) -> None:
    real = (FIXTURES / "interface" / f"ShowVersion__golden_output_{number}_output.txt").read_text()
    pattern = re.compile(
        r"^ *(BIOS|NXOS|BIOS compile time|NXOS image file is|Device name|bootflash|Processor Board ID)\b", re.MULTILINE
    )
    assert set(pattern.findall(real)) == set(pattern.findall(run(session, "show version")))


def test_inventory_lines(session: Session) -> None:
    real = (FIXTURES / "interface" / "ShowInventory__golden_output_1_output.txt").read_text()
    line = re.compile(r'^NAME: "[^"]+", +DESCR: "[^"]+" *\nPID: \S+ *, +VID: \S+ *, +SN: \S+', re.MULTILINE)
    assert line.search(real)
    assert len(line.findall(run(session, "show inventory"))) == 4
