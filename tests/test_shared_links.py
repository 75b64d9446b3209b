"""Real output about FEC, optics and firmware stored beside the project: each file is read with the right values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from railbed.check.shared.hardware.optics import judge_module
from railbed.errors import ParseError
from railbed.probes import ethtool_module
from railbed.probes.nexus import optics
from railbed.probes.outputs import all_probes
from tests.test_shared_fixtures import FIXTURES

LINKS = FIXTURES / "links"
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not LINKS.is_dir(), reason="no ../shared/fixtures here")]


def facts_of(probe: str, name: str) -> Any:
    facts = all_probes()[probe].parse((LINKS / name).read_text())
    assert not getattr(facts, "not_understood", ())
    return to_jsonable_python(facts)


@pytest.mark.parametrize(
    ("name", "interface", "configured", "active", "counts"),
    [
        ("ethtool_show_fec__mlx5_cx7_rs.txt", "enp1s0f0np0", ["RS"], ["RS"], (None, None)),
        ("ethtool_show_fec__mlxsw_auto_off.txt", "swp23", ["Auto"], ["Off"], (None, None)),
        ("ethtool_show_fec__old_label_link_down.txt", "", ["Auto"], ["None"], (None, None)),
        ("ethtool_I_show_fec__ice.txt", "ens21f0np0", ["Auto", "RS", "BaseR"], ["RS"], (0, 0)),
        ("ethtool_I_show_fec__histogram_6.18.txt", "eni8np1", ["None"], ["None"], (123, 4)),
        ("ethtool_I_show_fec__histogram_6.18.json", "eni8np1", ["None"], ["None"], (123, 4)),
    ],
)
def test_fec_of_hosts(
    name: str, interface: str, configured: list[str], active: list[str], counts: tuple[int | None, int | None]
) -> None:
    settings = facts_of("ethtool_fec", name)["interfaces"][interface]
    assert (settings["configured"], settings["active"]) == (configured, active)
    assert (settings["corrected_blocks"], settings["uncorrectable_blocks"]) == counts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nxos_show_interface__fec_lines_100g.txt", {"Ethernet1/1": ("auto", "rs-fec")}),
        ("nxos_show_interface__fec_lines_10g_on_25g_port.txt", {"Ethernet1/3": ("auto", "off")}),
        (
            "nxos_show_interface_fec__columns_restored.txt",
            {f"Ethernet{port}": ("auto", "auto") for port in ("1/1", "1/3/1", "1/3/2", "1/3/3", "1/3/4")},
        ),
    ],
)
def test_fec_of_a_switch(name: str, expected: dict[str, tuple[str, str]]) -> None:
    ports = facts_of("nexus_fec", name)["ports"]
    assert {port: (own["admin"], own["operational"]) for port, own in ports.items()} == expected


def test_optics_of_hosts() -> None:
    module = facts_of("ethtool_module", "ethtool_m__sfp_power_lines.txt")["interfaces"][""]
    assert module["lanes"] == [{"rx_dbm": -2.42, "tx_dbm": -2.34, "bias_ma": None, "flags": []}]
    assert module["limits"]["rx_low_warning"] == -9.9
    assert module["limits"]["tx_high_alarm"] == 1.0


def test_a_memory_of_ones_is_one_warning() -> None:
    text = (LINKS / "ethtool_m__not_a_module_all_on.txt").read_text()
    module = ethtool_module.parse(text).interfaces[""]
    assert (module.is_silent, module.lanes) == (True, ())
    assert judge_module(module, up=True).observed == "the module's memory answers with ones only"


def test_keys_that_occur_twice_lose_nothing() -> None:
    text = (LINKS / "ethtool_json_m__qsfp28_aoc_duplicate_keys.json").read_text()
    assert isinstance(json.loads(text)[0]["module_voltage"], dict)
    module = ethtool_module.parse(text).interfaces[""]
    assert [lane.rx_dbm for lane in module.lanes] == [-14.11, -13.87, -13.8, -14.07]
    assert {lane.tx_dbm for lane in module.lanes} == {-40.0}
    assert (module.part, module.serial) == ("MFS1S00-V003E", "MT1915FT03913")
    assert (module.limits["rx_low_alarm"], module.limits["rx_low_warning"]) == (-13.31, -10.3)
    assert not module.is_silent
    judged = judge_module(module, up=False)
    assert judged.observed == "no light arrives on lane 1, 2, 3, 4 of 4, and its own laser is off"


@pytest.mark.parametrize(
    ("name", "port", "up", "verdict", "observed"),
    [
        ("100g_psm4_low_warning", "Ethernet1/50", True, "warn", "lane 1: receives -13.97 dBm, low warning (-12.67)"),
        ("10g_rx_missing", "Ethernet1/26", False, "fail", "no light arrives"),
        ("10g_rx_missing", "Ethernet1/26", True, "ok", "sends -2.54 dBm"),
        ("400g_dac", "Ethernet1/1", True, "skipped", "the cable or module does not measure light"),
        ("400g_dr4_no_light", "Ethernet1/63", False, "fail", "no light arrives"),
        ("mixed_azure_tor", "Ethernet1/17", True, "ok", "receives -1.89 dBm, sends -1.45 dBm"),
        ("mixed_azure_tor", "Ethernet1/49", True, "skipped", "the cable or module does not measure light"),
    ],
)
def test_optics_of_a_switch(name: str, port: str, up: bool, verdict: str, observed: str) -> None:
    text = (LINKS / f"nxos_show_interface_transceiver_details__{name}.txt").read_text()
    module = optics.parse(text).ports[port]
    assert module is not None
    judged = judge_module(module, up=up)
    assert judged.verdict == verdict
    assert judged.observed.startswith(observed)


@pytest.mark.parametrize(
    ("name", "port", "power"),
    [
        ("100g_psm4_low_warning", "Ethernet1/50", [(None, -13.97), (None, -14.68)]),
        ("10g_rx_missing", "Ethernet1/26", [(-2.54, None)]),
        ("400g_dac", "Ethernet1/1", []),
        ("400g_dr4_no_light", "Ethernet1/63", [(None, None)]),
        ("mixed_azure_tor", "Ethernet1/17", [(-1.45, -1.89)]),
    ],
)
def test_light_of_lanes(name: str, port: str, power: list[tuple[float | None, float | None]]) -> None:
    ports = facts_of("nexus_optics", f"nxos_show_interface_transceiver_details__{name}.txt")["ports"]
    assert [(lane["tx_dbm"], lane["rx_dbm"]) for lane in ports[port]["lanes"]] == power


def test_a_cage_without_a_module() -> None:
    ports = facts_of("nexus_optics", "nxos_show_interface_transceiver_details__mixed_azure_tor.txt")["ports"]
    assert ports["Ethernet1/33"] is None
    assert ports["Ethernet1/1"]["type"] == "SFP-H25GB-CU3M"


def test_capabilities_are_not_transceivers() -> None:
    with pytest.raises(ParseError):
        facts_of("nexus_optics", "nxos_show_interface_capabilities__93180yc-ex.txt")


def test_mlxlink() -> None:
    quality = facts_of("mlxlink", "mlxlink_m_c__bf3_100g_dac.txt")["ports"][""]
    assert (quality["state"], quality["speed"], quality["fec"]) == (
        "Active",
        "100G",
        "Standard RS-FEC - RS(528,514)",
    )
    assert (quality["raw_ber"], quality["effective_ber"], quality["link_downs"]) == (0.0, 0.0, 0)
    assert (quality["minutes"], quality["advice"]) == (25074.8, None)


def test_mlxconfig() -> None:
    card = facts_of("mlxconfig", "mlxconfig_q__cx4lx_excerpt.txt")["cards"]["01:00.0"]
    assert card["type"] == "ConnectX4LX"
    values = {name: setting["next"] for name, setting in card["settings"].items()}
    assert values["ROCE_CC_PRIO_MASK_P1"] == "255"
    assert values["CNP_DSCP_P1"] == "48"
    assert values["PCI_WR_ORDERING"] == "per_mkey(0)"
    assert values["ADVANCED_PCI_SETTINGS"] == "False(0)"
    assert len(values) == 34


def test_every_output_has_a_test() -> None:
    """Except what is not read here: ESXi, the TCAM and the help of a switch, and lines picked out by grep."""
    source = Path(__file__).read_text()
    left_out = ("esxcli_", "nxos_fec_help", "nxos_tcam", "nxos_show_hardware", "ethtool_grep", "README")
    for path in LINKS.iterdir():
        if not path.name.startswith(left_out):
            assert path.name in source or path.stem.rpartition("__")[2] in source, path.name
