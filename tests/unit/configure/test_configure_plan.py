"""The plan of configure: from findings to changes in order, including those that make them survive a reboot."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from railbed.check.book import CHECK_BOOK
from railbed.configure.persist import VALUES, PortSettings, network_files, read_values
from railbed.configure.plan import Plan, in_order, make_plan, switch_cut
from railbed.configure.planned import PlannedFix
from railbed.configure.render import rendered_files
from railbed.configure.switchlines import merge_lines
from railbed.model.cluster import Cluster
from railbed.model.fix import ConfigStep, FileStep, Fix, Interruption, Persistence, as_steps, configure_lines
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.model.record import Finding, Verdict
from railbed.parsing.boot_unit import read_unit, render_unit
from railbed.probes.boot_config import NETPLAN, UNIT, BootConfig
from railbed.probes.hostname import Hostname
from railbed.probes.ip_addr import Address, Addresses
from railbed.probes.pending_change import PendingChange
from railbed.probes.ssh_session import SshSession
from railbed.rules.engine import judge
from railbed.rules.site import Site

CLUSTER = {
    "name": "c",
    "rails": {"r": {"subnet": "10.1.0.0/24"}},
    "nodes": {
        name: {"host": name, "ports": [{"netdev": "eth1", "rail": "r", "address": f"10.1.0.{number}"}]}
        for number, name in enumerate(("a", "b"), 1)
    },
    "switches": {"s": {"host": "s"}},
}
SYSTEMD = BootConfig(systemd=True)


def fix(*apply: str, device: str = "a", persistence: Persistence = Persistence.BOOT, **more: Any) -> Fix:
    return Fix(device=device, apply=as_steps(*apply), undo=as_steps("undo"), persistence=persistence, **more)


def finding(check: str, fix: Fix | None, subject: str = "a/eth1", verdict: Verdict = Verdict.FAIL) -> Finding:
    return Finding(check=check, subject=subject, verdict=verdict, expected="right", observed="wrong", why="", fix=fix)


def site_with(**readings: object) -> Site:
    """Return the cluster with facts of node a, by the name of their probe."""
    output = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0, received=0)
    known = {name: (Known(facts=facts, output=output),) for name, facts in readings.items()}
    devices = {"a": DeviceFacts(device="a", readings=known), "b": DeviceFacts(device="b"), "s": DeviceFacts(device="s")}
    return Site(Cluster.model_validate(CLUSTER), devices)


def plan_of(*findings: Finding, site: Site | None = None, **options: Any) -> Plan:
    return make_plan(site or site_with(), findings, **{"only": (), "named": (), **options})


def commands(plan: Plan, device: str = "a") -> list[str]:
    (chosen,) = [item for item in plan.devices if item.device == device]
    return [str(step) for step in chosen.fix.apply]


def test_only_what_is_wrong_is_changed_and_only_on_the_devices_chosen() -> None:
    findings = [
        finding("mtu", fix("mtu")),
        finding("pfc", fix("pfc"), verdict=Verdict.OK),
        finding("link_up", None),
        finding("mtu", fix("mtu b", device="b"), subject="b/eth1"),
    ]
    assert [device.device for device in plan_of(*findings).devices] == ["a", "b"]
    (only,) = plan_of(*findings, only={"b"}).devices
    assert commands(plan_of(*findings, only={"b"}), "b") == ["mtu b"]
    assert only.device == "b"


def test_fixes_come_after_those_they_depend_on_and_equal_ones_once() -> None:
    same = fix("dcb app replace dev eth1 dscp-prio 26:3")
    findings = [
        finding("dscp_map", same),
        finding("dscp_trust", same),
        finding("global_pause", fix("pause off", after=("pfc",))),
        finding("pfc", fix("pfc on")),
        finding("mtu", fix("mtu")),
        finding("rdma_modules", fix("modprobe"), subject="a"),
    ]
    planned = in_order([PlannedFix.of(item, item.fix) for item in findings if item.fix])
    assert [change.checks for change in planned] == [
        ("rdma_modules",),
        ("mtu",),
        ("pfc",),
        ("dscp_map", "dscp_trust"),
        ("global_pause",),
    ]


def test_a_dependency_overrides_the_usual_order() -> None:
    findings = [finding("mtu", fix("mtu", after=("pfc",))), finding("pfc", fix("pfc")), finding("dcqcn", fix("dcqcn"))]
    planned = in_order([PlannedFix.of(item, item.fix) for item in findings if item.fix])
    assert [change.checks[0] for change in planned] == ["pfc", "mtu", "dcqcn"]


def test_the_whole_device_is_undone_in_the_opposite_order() -> None:
    first = Fix(device="a", apply=as_steps("1"), undo=as_steps("undo 1a", "undo 1b"), persistence=Persistence.KEPT)
    second = Fix(device="a", apply=as_steps("2"), undo=as_steps("undo 2"), persistence=Persistence.KEPT)
    (device,) = plan_of(finding("link_up", first), finding("mtu", second)).devices
    assert list(map(str, device.fix.undo)) == ["undo 2", "undo 1a", "undo 1b"]


def test_a_fix_that_needs_a_decision_is_applied_only_if_its_rule_is_named() -> None:
    undecided = finding("mtu", fix("mtu", condition="once every switch port on r passes 9000 bytes"))
    plan = plan_of(undecided)
    assert plan.devices == ()
    ((_, reason),) = plan.left_out
    assert reason == (
        "needs your decision: once every switch port on r passes 9000 bytes; "
        "`railbed configure --rule mtu` includes it, `--all` all of them"
    )
    assert commands(plan_of(undecided, named={"mtu"})) == ["mtu"]


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("ip addr del 192.0.2.1/24 dev eth0", "at 192.0.2.1, which this would remove"),
        ("ip link set dev eth0 down", "through eth0, which this would turn off"),
        ("ip addr del 10.1.0.1/24 dev eth1", ""),
        ("ip addr add 192.0.2.1/24 dev eth1", ""),
        ("ip link set dev eth1 down", ""),
        ("ip link set dev eth0 mtu 9000", ""),
    ],
)
def test_a_change_that_would_cut_the_management_path_is_refused(command: str, refused: str) -> None:
    site = site_with(
        ssh_session=SshSession(address="192.0.2.1", port=22),
        ip_addr=Addresses(interfaces={"eth0": (Address(address="192.0.2.1", prefix=24),), "eth1": ()}),
    )
    plan = plan_of(finding("rail_address", fix(command)), site=site, named={"rail_address"})
    assert [reason.endswith(refused) for _, reason in plan.left_out] == ([True] if refused else [])
    assert bool(plan.devices) is not bool(refused)


def test_a_device_that_somebody_else_changes_is_left_alone() -> None:
    site = site_with(pending_change=PendingChange(state="held", holder="run x, ada on desk, pid 1"))
    plan = plan_of(finding("mtu", fix("mtu")), site=site)
    assert [reason for _, reason in plan.left_out] == ["a is being changed by run x, ada on desk, pid 1"]


# What a reboot keeps


def test_settings_that_the_kernel_forgets_are_kept_by_one_unit_to_which_later_runs_add() -> None:
    pfc = finding("pfc", fix("dcb pfc set dev eth1 prio-pfc all:off 3:on"))
    (device,) = plan_of(pfc, site=site_with(boot_config=SYSTEMD)).devices
    file, enable = device.fix.apply[1:]
    assert isinstance(file, FileStep)
    assert (file.path, file.mode, str(enable)) == (UNIT, "644", "systemctl enable --quiet railbed.service")
    assert str(device.fix.undo[0]) == "systemctl disable --quiet railbed.service"
    assert file.content is not None
    assert read_unit(file.content) == {"pfc eth1": ["dcb pfc set dev eth1 prio-pfc all:off 3:on"]}
    later = site_with(boot_config=BootConfig(systemd=True, files={UNIT: file.content}))
    (device,) = plan_of(finding("governor", fix("echo x"), subject="a"), site=later).devices
    (_, updated) = device.fix.apply
    assert isinstance(updated, FileStep)
    assert updated.content is not None
    assert list(read_unit(updated.content)) == ["pfc eth1", "governor"]
    assert any(line.startswith("+ExecStart") for line in device.changes[-1].record().apply), "people see the difference"
    (device,) = plan_of(pfc, site=later).devices
    assert commands(plan_of(pfc, site=later)) == ["dcb pfc set dev eth1 prio-pfc all:off 3:on"], "the unit has it"


@given(
    st.lists(
        st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\x85"), min_size=1),
        min_size=1,
    )
)
def test_a_unit_is_read_back_as_it_was_written(lines: list[str]) -> None:
    assert read_unit(render_unit({"pfc eth1": lines})) == {"pfc eth1": lines}


def test_systemd_accepts_the_unit() -> None:
    text = render_unit({"governor": ["echo performance | tee /sys/cpu[0-9]*/x"], "pfc eth-1": ["echo 100%"]})
    drivers = "systemd-modules-load.service rdma-hw.target openibd.service"
    assert f"After=network-online.target {drivers} sys-subsystem-net-devices-eth\\x2d1.device" in text
    assert 'ExecStart=-/bin/sh -c "echo 100%%"' in text


@pytest.mark.parametrize(
    ("boot", "paths"),
    [
        (BootConfig(systemd=True, manager="netplan", netplan_ids={"eth1": "rail-a"}), [NETPLAN]),
        (BootConfig(systemd=True, manager="networkd"), ["/etc/systemd/network/10-railbed-eth1.network"]),
        (
            BootConfig(systemd=True, manager="networkd", network_files={"eth1": "/etc/systemd/network/20-r.network"}),
            ["/etc/systemd/network/20-r.network.d/90-railbed.conf"],
        ),
        (BootConfig(systemd=True, manager="ifupdown"), ["/etc/network/interfaces.d/railbed"]),
        (BootConfig(systemd=True), [UNIT]),
        (BootConfig(systemd=False, manager="ifupdown"), []),
    ],
    ids=["netplan", "networkd", "networkd drop-in", "ifupdown", "another", "no systemd"],
)
def test_addresses_and_mtus_are_kept_where_the_host_keeps_its_own(boot: BootConfig, paths: list[str]) -> None:
    changes = [
        finding("mtu", fix("ip link set dev eth1 mtu 9000", persistence=Persistence.NETWORK)),
        finding("rail_address", fix("ip addr add 10.1.0.1/24 dev eth1", persistence=Persistence.NETWORK)),
    ]
    (device,) = plan_of(*changes, site=site_with(boot_config=boot)).devices
    files = {step.path: step.content or "" for step in device.fix.apply if isinstance(step, FileStep)}
    assert list(files) == paths
    if paths and paths != [UNIT]:
        (content,) = files.values()
        assert read_values(content) == {"eth1": PortSettings(mtu=9000, address="10.1.0.1/24")}
        written = BootConfig(**{**_fields(boot), "files": files})
        again = plan_of(*changes, site=site_with(boot_config=written)).devices[0]
        assert not [step for step in again.fix.apply if isinstance(step, FileStep)], "written once"


@pytest.mark.parametrize("mtu", ["1e999", "true", '"9000"', "[9000]", "{}"])
def test_a_file_with_a_damaged_mtu_has_no_settings(mtu: str) -> None:
    assert read_values(f'{VALUES}{{"eth1": {{"mtu": {mtu}}}}}\n') == {}


def _fields(boot: BootConfig) -> Mapping[str, Any]:
    return {
        "systemd": boot.systemd,
        "manager": boot.manager,
        "netplan_ids": boot.netplan_ids,
        "network_files": boot.network_files,
    }


def test_netplan_gets_its_own_name_of_the_interface_and_only_what_was_set() -> None:
    boot = BootConfig(systemd=True, manager="netplan", netplan_ids={"eth1": "rail-a"})
    (text,) = network_files(boot, {"eth1": PortSettings(mtu=9000)}).values()
    assert YAML(typ="safe").load(text) == {
        "network": {"version": 2, "ethernets": {"rail-a": {"mtu": 9000, "optional": True}}}
    }


def test_a_hostname_moves_from_loopback_to_the_rail_and_the_rest_of_hosts_stays() -> None:
    hosts = "127.0.0.1 localhost\n127.0.1.1 gpu01 gpu01.site  # Debian\n10.9.9.9 storage gpu01"
    site = site_with(hostname=Hostname(name="gpu01", addresses=("127.0.1.1",), hosts=hosts))
    ((finding, *_),) = [list(judge(CHECK_BOOK, site, [CHECK_BOOK.rules["hostname_resolves"]]))]
    assert finding.fix
    (file,) = finding.fix.apply
    assert isinstance(file, FileStep)
    assert file.content == ("127.0.0.1 localhost\n127.0.1.1 gpu01.site\n10.9.9.9 storage gpu01\n10.1.0.1 gpu01\n")


# Switches


def lines_of(*fixes: Fix) -> list[str]:
    planned = [PlannedFix.of(finding(f"rule{number}", fix), fix) for number, fix in enumerate(fixes)]
    return [
        line
        for change in merge_lines(planned)
        for step in change.fix.apply
        if isinstance(step, ConfigStep)
        for line in step.lines
    ]


def test_lines_of_a_switch_are_merged_and_nothing_is_used_before_it_exists_or_removed_while_used() -> None:
    attach = configure_lines(
        "s", "system qos", "  service-policy type network-qos new", "  no service-policy type network-qos old"
    )
    create = configure_lines(
        "s", "policy-map type network-qos new", "  class type network-qos c-8q-nq3", "    mtu 9216"
    )
    pause = configure_lines(
        "s", "policy-map type network-qos new", "  class type network-qos c-8q-nq3", "    pause pfc-cos 3"
    )
    remove = configure_lines("s", "no class-map type qos old", "no policy-map type network-qos old")
    classify = configure_lines("s", "class-map type qos match-any roce", "  match dscp 26")
    watchdog = configure_lines("s", "priority-flow-control watch-dog-interval on")
    port = configure_lines("s", "interface Ethernet1/1", "  mtu 9216")
    assert lines_of(remove, attach, watchdog, port, create, pause, classify) == [
        "class-map type qos match-any roce",
        "  match dscp 26",
        "policy-map type network-qos new",
        "  class type network-qos c-8q-nq3",
        "    mtu 9216",
        "    pause pfc-cos 3",
        "system qos",
        "  no service-policy type network-qos old",
        "  service-policy type network-qos new",
        "interface Ethernet1/1",
        "  mtu 9216",
        "priority-flow-control watch-dog-interval on",
        "no policy-map type network-qos old",
        "no class-map type qos old",
    ]


# Files for people who apply by hand


def test_rendered_scripts_are_shell_and_the_undo_restores_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rendered")
    old, new = folder / "old file", folder / "new.d" / "new"
    old.write_text("before\n")
    files = (
        FileStep(path=str(old), content="after 'quoted' $HOME\n"),
        FileStep(path=str(new), content="new\n", mode="600", own_folder=True),
    )
    change = Fix(device="a", apply=files, undo=(), persistence=Persistence.KEPT)
    rendered = rendered_files(plan_of(finding("memlock", change, subject="a")))
    assert set(rendered) == {"a.sh", "a-undo.sh"}
    subprocess.run(["sh", "-c", rendered["a.sh"]], check=True, timeout=30)
    assert (old.read_text(), new.read_text()) == ("after 'quoted' $HOME\n", "new\n")
    subprocess.run(["sh", "-c", rendered["a-undo.sh"]], check=True, timeout=30)
    assert (old.read_text(), new.exists()) == ("before\n", False)


def test_the_lines_of_a_switch_have_their_way_back_beside_them() -> None:
    mtu = Interruption(losing=("Ethernet1/1",))
    change = configure_lines("s", "interface Ethernet1/1", "  mtu 9216", interruption=mtu)
    rendered = rendered_files(plan_of(finding("switch_mtu", change, subject="s/Ethernet1/1")))
    assert set(rendered) == {"s.cfg", "s-undo.cfg"}
    assert "! Meanwhile Ethernet1/1 of s loses packets for a moment." in rendered["s.cfg"]
    assert [line for line in rendered["s.cfg"].splitlines() if not line.startswith("!")] == [
        "interface Ethernet1/1",
        "  mtu 9216",
    ]
    assert "checkpoint railbed-before" in rendered["s.cfg"]
    assert "s-undo.cfg" in rendered["s.cfg"]
    assert [line for line in rendered["s-undo.cfg"].splitlines() if not line.startswith("!")] == [
        "rollback running-config checkpoint railbed-before atomic",
        "no checkpoint railbed-before",
    ]
    comments = [line for line in rendered["s-undo.cfg"].splitlines() if line.startswith("!")]
    assert "! show diff rollback-patch running-config checkpoint railbed-before" in comments
    assert "! If the changes had been saved: copy running-config startup-config" in comments


@pytest.mark.parametrize(
    "lines",
    [
        ("interface mgmt0", "  mtu 9216"),
        ("interface Vlan1", "  mtu 9216"),
        ("interface Ethernet1/1", "  shutdown"),
        ("interface Ethernet1/1", "  no switchport"),
        ("interface Ethernet1/1", "  switchport access vlan 7"),
        ("interface Ethernet1/1", "  no ip address"),
        ("interface Ethernet1/1", "  ip access-group x in"),
        ("interface Ethernet1/1", "  vrf member blue"),
        ("default interface Ethernet1/1",),
        ("no feature ssh",),
        ("no vlan 1",),
    ],
)
def test_lines_that_change_how_a_switch_is_reached_are_refused(lines: tuple[str, ...]) -> None:
    cut = switch_cut(configure_lines("s1", *lines))
    assert cut == f"refused: `{lines[-1].strip() if 'mtu' not in lines[-1] else lines[0]}` would cut the path to s1"


def test_lines_that_fixes_need_are_not_refused() -> None:
    lines = ("system qos", "  service-policy type qos input x", "interface Ethernet1/1", "  no shutdown", "  mtu 9216")
    assert switch_cut(configure_lines("s1", *lines)) == ""
