"""What the next boot makes of settings that are right now: a warning, until configure has stored them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.bootnode import CONNECTION, NETWORK, NOTHING_ELSE, QOS, Node, interfaces, netplan, networkd

from railbed.check.book import CHECK_BOOK
from railbed.configure.plan import make_plan
from railbed.model.fix import FileStep, Persistence
from railbed.model.record import Verdict
from railbed.probes import boot_config
from railbed.probes.boot_config import NETPLAN, UNIT
from railbed.rules.engine import judge
from railbed.rules.site import Site

NOT_STORED = {
    "netplan": Node(manager="netplan", files=netplan("eno1: {dhcp4: true}")),
    "netplan, empty": Node(manager="netplan", files=netplan("eth1: {optional: true}")),
    "networkd": Node(manager="networkd"),
    "networkd, no setting": Node(manager="networkd", files=networkd("[Network]\nLLDP=yes\n")),
    "networkd, of many": Node(
        manager="networkd", files={"/etc/systemd/network/20-all.network": "[Match]\nName=eth*\n[Network]\nLLDP=yes\n"}
    ),
    "ifupdown": Node(manager="ifupdown", files=interfaces()),
    "NetworkManager": Node(manager=""),
    "NetworkManager, in memory": Node(manager="", connection={**CONNECTION, "filename": "/run/NetworkManager/x"}),
}
STORED = {
    "netplan": Node(manager="netplan", files=netplan("eth1: {mtu: 9000, addresses: [10.1.0.1/24]}")),
    "netplan, two files": Node(
        manager="netplan",
        files={
            **netplan("eth1: {mtu: 1500, addresses: [10.9.0.1/24]}"),
            "/etc/netplan/60-rails.yaml": "network: {ethernets: {eth1: {mtu: 9000, addresses: [10.1.0.1/24]}}}\n",
        },
    ),
    "networkd": Node(manager="networkd", files=networkd("[Link]\nMTUBytes=9000\n[Network]\nAddress=10.1.0.1/24\n")),
    "ifupdown": Node(
        manager="ifupdown",
        files=interfaces("auto eth1\niface eth1 inet static\n  address 10.1.0.1/24\n  mtu 9000\n"),
    ),
    "NetworkManager": Node(manager="", connection=CONNECTION),
}
OTHERS = {
    "netplan": Node(manager="netplan", files=netplan("eth1: {mtu: 1500, addresses: [10.1.0.7/24]}")),
    "networkd": Node(manager="networkd", files=networkd("[Link]\nMTUBytes=1500\n[Network]\nAddress=10.1.0.7/24\n")),
    "ifupdown": Node(
        manager="ifupdown",
        files=interfaces("auto eth1\niface eth1 inet static\n  address 10.1.0.7/24\n  mtu 1500\n"),
    ),
    "NetworkManager": Node(
        manager="", connection={**CONNECTION, "802-3-ethernet.mtu": "1500", "ipv4.addresses": "10.1.0.7/24"}
    ),
}
LEASED = {
    "netplan": Node(manager="netplan", files=netplan("eth1: {dhcp4: true}")),
    "networkd": Node(manager="networkd", files=networkd("[Network]\nDHCP=ipv4\n[DHCPv4]\nUseMTU=yes\n")),
    "ifupdown": Node(manager="ifupdown", files=interfaces("auto eth1\niface eth1 inet dhcp\n")),
    "NetworkManager": Node(
        manager="",
        connection={**CONNECTION, "802-3-ethernet.mtu": "auto", "ipv4.method": "auto", "ipv4.addresses": ""},
    ),
}


@pytest.mark.parametrize("node", NOT_STORED.values(), ids=NOT_STORED)
def test_what_is_stored_nowhere_is_a_warning_until_configure_stores_it_and_again_when_that_is_removed(
    node: Node,
) -> None:
    findings = node.findings()
    assert {check: finding.verdict for check, finding in findings.items()} == {
        "mtu": Verdict.WARN,
        "rail_address": Verdict.WARN,
    }
    assert findings["mtu"].observed.startswith("MTU 9000 right now, gone after a reboot: ")
    assert findings["rail_address"].observed.startswith("10.1.0.1/24 right now, gone after a reboot: ")
    configured = node.configured()
    assert set(configured.verdicts().values()) == {Verdict.OK}, configured.files
    assert not configured.plan().devices, "nothing is left to do"
    assert node.verdicts() == replace(configured, files=node.files).verdicts()


@pytest.mark.parametrize("node", STORED.values(), ids=STORED)
def test_a_node_that_restores_its_settings_is_right(node: Node) -> None:
    assert set(node.verdicts().values()) == {Verdict.OK}


@pytest.mark.parametrize("node", OTHERS.values(), ids=OTHERS)
def test_another_stored_value_is_named_with_where_it_is_and_overridden_by_configure(node: Node) -> None:
    findings = node.findings()
    assert findings["mtu"].observed.startswith("MTU 9000 right now, after a reboot MTU 1500: ")
    assert findings["rail_address"].observed.startswith("10.1.0.1/24 right now, after a reboot 10.1.0.7/24: ")
    assert all(finding.verdict is Verdict.WARN for finding in findings.values())
    assert set(node.configured().verdicts().values()) == {Verdict.OK}


@pytest.mark.parametrize("node", LEASED.values(), ids=LEASED)
def test_a_lease_is_a_warning_for_the_address_alone_since_the_mtu_may_come_with_it(node: Node) -> None:
    findings = node.findings()
    assert (findings["mtu"].verdict, findings["rail_address"].verdict) == (Verdict.OK, Verdict.WARN)
    assert "whatever DHCP leases" in findings["rail_address"].observed
    assert "reserve the address" in findings["rail_address"].remedy
    assert set(node.configured().verdicts().values()) == {Verdict.OK}


@pytest.mark.parametrize(
    "node",
    [
        replace(NOT_STORED["netplan"], agents=("puppet",)),
        replace(NOT_STORED["netplan"], agents=("wicked",)),
        replace(
            NOT_STORED["networkd"],
            scripts="==> mtu <==\n/etc/rc.local\n==> address <==\n/etc/rc.local\n==> end <==\n",
        ),
        replace(NOT_STORED["networkd"], scripts="==> end <==\n"),
        Node(manager="netplan", files=netplan("all: {match: {}, mtu: 1500}")),
        Node(manager="ifupdown", files={"/etc/network/interfaces": "source /srv/x\n"}),
    ],
    ids=["agent", "other service", "script", "scripts not read", "any interface", "files elsewhere"],
)
def test_what_is_not_understood_is_no_reason_to_warn(node: Node) -> None:
    assert set(node.verdicts().values()) == {Verdict.OK}


def test_the_mtu_that_a_driver_starts_with_needs_no_file() -> None:
    assert replace(NOT_STORED["netplan"], driver="ena").verdicts()["mtu"] is Verdict.OK, "it may start with another"
    assert replace(NOT_STORED["netplan"], mtu=1500).verdicts()["mtu"] is Verdict.OK


def test_configure_only_stores_what_is_right_now() -> None:
    node = NOT_STORED["netplan"]
    (device,) = node.plan().devices
    assert [change.checks for change in device.changes] == [("mtu",), ("rail_address",), ("boot",)]
    assert [str(step) for step in device.fix.apply if not isinstance(step, FileStep)] == ["netplan generate"]
    assert [step.path for step in device.fix.apply if isinstance(step, FileStep)] == [NETPLAN]
    assert not device.fix.interrupts
    assert device.changes[0].record().apply == ()
    assert device.changes[0].before == "MTU 9000 right now, gone after a reboot: netplan does not store it"
    experiment = make_plan(node.site(), node.findings().values(), only=(), named=(), lasting=False)
    assert not experiment.devices, "an experiment stores nothing"


SWITCHABLE = replace(NOT_STORED["netplan"], rules=QOS)


def test_what_only_commands_restore_is_a_warning_until_it_is_in_the_unit() -> None:
    assert {check: finding.observed for check, finding in SWITCHABLE.findings().items()} == {
        "pfc": "PFC on priority 3 right now, gone after a reboot: nothing sets it at boot",
        "dscp_map": "DSCP 26 to priority 3 right now, gone after a reboot: nothing sets it at boot",
        "roce_tos": "RDMA-CM ToS 106 (NCCL needs NCCL_IB_TC) right now, gone after a reboot: nothing sets it at boot",
    }
    (device,) = SWITCHABLE.plan().devices
    written = [step.path for step in device.fix.apply if isinstance(step, FileStep)]
    assert (written, device.fix.interrupts) == ([UNIT], False)
    configured = SWITCHABLE.configured()
    assert set(configured.verdicts().values()) == {Verdict.OK}
    assert not configured.plan().devices


@pytest.mark.parametrize(
    ("node", "right"),
    [
        (replace(SWITCHABLE, dcbx="lld-managed ieee"), {"pfc", "dscp_map"}),
        (replace(SWITCHABLE, dcbx=""), {"pfc", "dscp_map"}),
        (replace(SWITCHABLE, units=("lldpad",)), {"pfc", "dscp_map"}),
        (replace(SWITCHABLE, agents=("puppet",)), set(QOS)),
        (
            replace(SWITCHABLE, scripts=NOTHING_ELSE.replace("==> tos <==\n", "==> tos <==\n/opt/roce.sh\n")),
            {"roce_tos"},
        ),
    ],
    ids=["switch", "not known", "lldpad", "agent", "script"],
)
def test_what_something_else_may_restore_is_no_warning(node: Node, right: set[str]) -> None:
    assert {check for check, verdict in node.verdicts().items() if verdict is Verdict.OK} == right


def test_a_unit_that_is_disabled_restores_nothing_and_configure_enables_it() -> None:
    configured = replace(NOT_STORED["NetworkManager"].configured(), unit_enabled=True)
    assert set(configured.verdicts().values()) == {Verdict.OK}
    disabled = replace(configured, unit_enabled=False)
    assert set(disabled.verdicts().values()) == {Verdict.WARN}
    (device,) = disabled.plan().devices
    assert "systemctl enable --quiet railbed.service" in [str(step) for step in device.fix.apply]


def test_an_old_unit_with_another_value_is_named() -> None:
    node = NOT_STORED["NetworkManager"].configured()
    files = {path: text.replace("mtu 9000", "mtu 4200") for path, text in node.files.items()}
    finding = replace(node, files=files).findings()["mtu"]
    assert (finding.verdict, finding.fix and finding.fix.persistence) == (Verdict.WARN, Persistence.NETWORK)
    assert finding.observed == (
        "MTU 9000 right now, after a reboot what /etc/systemd/system/railbed.service sets: "
        "ip link set dev eth1 mtu 4200"
    )
    assert replace(node, files=files).configured().verdicts()["mtu"] is Verdict.OK


def test_recordings_without_these_facts_are_judged_as_before() -> None:
    site = NOT_STORED["netplan"].site()
    readings = {name: reading for name, reading in site.devices["a"].readings.items() if not name.startswith("boot_n")}
    old = Site(site.cluster, {"a": replace(site.devices["a"], readings=readings)})
    rules = [CHECK_BOOK.rules[name] for name in (*NETWORK, *QOS)]
    assert {finding.verdict for finding in judge(CHECK_BOOK, old, rules)} == {Verdict.OK}
    assert boot_config.PROBE.name in readings
