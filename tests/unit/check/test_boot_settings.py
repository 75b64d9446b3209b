"""What the next boot makes of settings that network services do not know, and which rules judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
from tests.support.bootnode import NOTHING_ELSE, QOS, Node, interfaces, netplan, networkd
from tests.support.rulecase import CASES, load_yaml, site_of

from railbed.check.book import CHECK_BOOK
from railbed.check.shared.boot import BOOT_PROBES
from railbed.model.fix import FileStep, Persistence
from railbed.model.record import Verdict
from railbed.probes.boot_config import UNIT
from railbed.rules.engine import judge

DOCUMENT = Path(__file__).parents[3] / "docs" / "checking.md"
EXCEPTIONS = {
    "cable_fec": "an FEC that is right may be what the link negotiated, which the next link-up does again",
    "congestion_settings": "what is right may be what the driver starts with, which no tool shows",
    "dcbx": "the card's firmware decides who is master at boot, and no tool shows what it will be",
    "firewall": "what stored rules of nftables and iptables admit shows only once they are loaded",
    "link_speed": "its fix turns negotiation on, with which every driver starts",
    "pcie_settings": "what is right may be what the machine's firmware sets, which no tool shows",
    "rdma_mtu": "it follows the MTU of the interface, which the rule mtu judges",
}
"""Rules with a fix that a reboot would lose, which do not judge the next boot, each with the reason."""
FIRMWARE = """\
==> eth1 <==
Configurations:                                          Next Boot
        ROCE_CC_PRIO_MASK_P1                        0
        CNP_DSCP_P1                                 40
==> end <==
"""
PERSISTENCED = """\
==> kernel <==
CONFIG_CPU_FREQ_DEFAULT_GOV_POWERSAVE=y
==> persistenced <==
UnitFileState=static
ActiveState=active
ExecStart={ path=/usr/bin/nvidia-persistenced ; argv[]=/usr/bin/nvidia-persistenced --no-persistence-mode ; }
==> end <==
"""
GPU = """\
==> pci <==
0000:17:00.0
==> module <==
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1.2  Mon Jan  1
==> gpus <==
0, Tesla V100, GPU-1, 00000000:17:00.0, 32768, 535.1.2, Enabled, Enabled, 0, 7.0
"""
FEATURES = """\
==> eth1 <==
Features for eth1:
rx-checksumming: on
tx-checksumming: on
tcp-segmentation-offload: on
generic-receive-offload: on
"""
MODULES = "==> loaded <==\nrdma_ucm 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\n"
MODULES += "==> infiniband <==\nmlx5_0\n==> infiniband_verbs <==\nuverbs0\n"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting that is right now, and that nothing restores at boot."""

    facts: Mapping[str, str]
    lost: str = "nothing sets it at boot"
    """Why the next boot loses it, in the finding."""
    stored: Mapping[str, str] = field(default_factory=dict)
    """Facts that differ on a node that restores it."""
    link: str = ""
    stored_link: str = ""


SETTINGS = {
    "ets": Setting(
        facts={
            "dcb_ets": "==> eth1 <==\nwilling off ets-cap 8 cbs off\ntc-bw 0:20 1:0 2:0 3:80 4:0 5:0 6:0 7:0\n"
            "tc-tsa 0:ets 1:strict 2:strict 3:ets 4:strict 5:strict 6:strict 7:strict\n"
            "prio-tc 0:0 1:0 2:0 3:3 4:0 5:0 6:6 7:0\n"
        }
    ),
    "buffers": Setting(
        facts={
            "infiniband": "mlx5_0/node_type:1: CA\nmlx5_0/parent:eth1\nmlx5_0/ports/1/link_layer:Ethernet\n",
            "dcb_buffer": "==> eth1 <==\nprio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0\n"
            "buffer-size 0:19872b 1:220896b 2:0b 3:0b 4:0b 5:0b 6:0b 7:0b\n",
        }
    ),
    "dcqcn": Setting(
        facts={
            "dcqcn": "eth1/ecn/roce_np/enable/3:1\neth1/ecn/roce_rp/enable/3:1\n",
            "boot_firmware": FIRMWARE,
        },
        lost="the firmware starts with ROCE_CC_PRIO_MASK_P1=0",
        stored={"boot_firmware": FIRMWARE.replace("P1                        0", "P1                        0x08")},
    ),
    "cnp_dscp": Setting(
        facts={"dcqcn": "eth1/ecn/roce_np/cnp_dscp:48", "boot_firmware": FIRMWARE},
        lost="after a reboot 40: the firmware starts with CNP_DSCP_P1",
        stored={"boot_firmware": FIRMWARE.replace("40\n", "48\n")},
    ),
    "global_pause": Setting(
        facts={"ethtool_pause": "==> eth1 <==\nPause parameters for eth1:\nAutonegotiate: off\nRX: off\nTX: off\n"},
        stored_link="RxFlowControl=no\nTxFlowControl=no",
    ),
    "offloads": Setting(
        facts={"ethtool_features": FEATURES},
        lost="after a reboot gro off: /etc/systemd/network/10-rail.link",
        link="GenericReceiveOffload=no",
        stored_link="GenericReceiveOffload=yes",
    ),
    "governor": Setting(
        facts={
            "cpu": "==> lscpu <==\nCPU(s): 8\n==> governors <==\n 8 performance\n==> machine <==\n",
            "boot_host": PERSISTENCED,
        },
        lost="nothing sets it at boot, and the kernel starts with powersave",
        stored={"boot_host": "==> enabled <==\ntuned\n==> tuned <==\nhpc-compute\n==> end <==\n"},
    ),
    "gpu_persistence": Setting(
        facts={"gpu": GPU, "boot_host": PERSISTENCED},
        lost="nvidia-persistenced starts with --no-persistence-mode",
        stored={"boot_host": PERSISTENCED.replace(" --no-persistence-mode", "")},
    ),
    "gpu_peer_memory": Setting(
        facts={
            "gpu": GPU,
            "modules": MODULES,
            "os_release": "==> uname <==\nLinux 5.4.0 x86_64\n",
            "boot_host": PERSISTENCED,
            "boot_modules": "==> end <==\n",
        },
        lost="nothing loads nvidia-peermem at boot",
        stored={"boot_modules": "==> loads <==\n/etc/modules nvidia-peermem\n==> end <==\n"},
    ),
    "rdma_modules": Setting(
        facts={"modules": MODULES, "boot_host": PERSISTENCED, "boot_modules": "==> end <==\n"},
        lost="nothing loads rdma_ucm at boot",
        stored={"boot_modules": "==> loads <==\n/etc/rdma/modules/rdma.conf rdma_ucm\n==> end <==\n"},
    ),
}
MANAGERS = {
    "netplan": Node(manager="netplan", files=netplan("eth1: {addresses: [10.1.0.1/24]}")),
    "networkd": Node(manager="networkd", files=networkd("[Network]\nAddress=10.1.0.1/24\n")),
    "ifupdown": Node(manager="ifupdown", files=interfaces("auto eth1\niface eth1 inet static\n")),
    "NetworkManager": Node(manager=""),
}


def node_with(rule: str, manager: str = "netplan", *, stored: bool = False) -> Node:
    setting = SETTINGS[rule]
    facts = {**setting.facts, **(setting.stored if stored else {})}
    link = setting.stored_link if stored else setting.link
    return replace(MANAGERS[manager], rules=(rule,), facts=facts, link=link)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("rule", SETTINGS)
def test_what_was_set_by_hand_is_a_warning_until_it_is_configured_and_again_when_that_is_removed(
    rule: str, manager: str
) -> None:
    node = node_with(rule, manager)
    finding = node.findings()[rule]
    assert finding.verdict is Verdict.WARN
    assert " right now, " in finding.observed
    assert finding.observed.endswith(SETTINGS[rule].lost)
    (device,) = node.plan().devices
    assert [step.path for step in device.fix.apply if isinstance(step, FileStep)] == [UNIT]
    assert not device.fix.interrupts
    assert not device.changes[0].fix.apply, "the node is right now"
    configured = node.configured()
    assert configured.verdicts() == {rule: Verdict.OK}, configured.files[UNIT]
    assert not configured.plan().devices, "nothing is left to do"
    assert replace(configured, unit_enabled=False).verdicts() == {rule: Verdict.WARN}
    assert replace(configured, files=node.files).verdicts() == {rule: Verdict.WARN}


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("rule", [rule for rule, setting in SETTINGS.items() if setting.stored or setting.stored_link])
def test_a_node_that_restores_it_is_right(rule: str, manager: str) -> None:
    assert node_with(rule, manager, stored=True).verdicts() == {rule: Verdict.OK}


SETS_IT = {"ets": "qos", "buffers": "qos", "cnp_dscp": "dcqcn", "global_pause": "pause"}
SETS_IT |= {"gpu_persistence": "gpu", "gpu_peer_memory": "modules", "rdma_modules": "modules"}


@pytest.mark.parametrize("rule", SETTINGS)
def test_what_something_else_may_restore_is_no_warning(rule: str) -> None:
    """A script of somebody, a server that configures the node, or what was not read."""
    node, setting = node_with(rule), SETS_IT.get(rule, rule)
    script = NOTHING_ELSE.replace(f"==> {setting} <==\n", f"==> {setting} <==\n/opt/site/tune.sh\n")
    pulled = NOTHING_ELSE.replace("==> any <==\n", "==> any <==\n/etc/cron.d/pull\n")
    unread = f"==> {'mtu' if setting != 'mtu' else 'qos'} <==\n==> end <==\n"
    for variant in (*(replace(node, scripts=scripts) for scripts in (script, pulled, unread)),):
        assert variant.verdicts() == {rule: Verdict.OK}, variant.scripts
    assert replace(node, agents=("puppet",)).verdicts() == {rule: Verdict.OK}


def test_without_what_the_probes_read_nothing_is_a_warning() -> None:
    for rule, setting in SETTINGS.items():
        facts = {name: text for name, text in setting.facts.items() if not name.startswith("boot_")}
        node = replace(node_with(rule), facts=facts, manager="", link="", driver="ena")
        verdicts = replace(node, scripts="==> end <==\n").verdicts()
        assert verdicts == {rule: Verdict.OK}


def test_an_interface_that_nothing_switches_on_is_a_warning_and_configure_stores_it() -> None:
    by_hand = Node(manager="networkd", rules=("link_up",))
    finding = by_hand.findings()["link_up"]
    assert (finding.verdict, finding.observed) == (
        Verdict.WARN,
        "up, with a link right now, gone after a reboot: networkd does not store it",
    )
    assert by_hand.configured().verdicts() == {"link_up": Verdict.OK}
    together = replace(by_hand, rules=("link_up", "mtu", "rail_address"))
    assert set(together.configured().verdicts().values()) == {Verdict.OK}
    assert UNIT not in together.configured().files, "the file that has the address switches it on"
    for node in MANAGERS.values():
        assert replace(node, rules=("link_up",)).verdicts() == {"link_up": Verdict.OK}


def test_configure_stores_all_of_a_node_in_one_unit_and_later_runs_add_to_it() -> None:
    facts = {name: text for setting in SETTINGS.values() for name, text in setting.facts.items()}
    facts |= {"infiniband": "mlx5_0/device/uevent:DRIVER=mlx5_core\nmlx5_0/ports/1/link_layer:Ethernet\n"}
    facts["dcqcn"] = "\n".join(SETTINGS[rule].facts["dcqcn"].strip() for rule in ("dcqcn", "cnp_dscp"))
    rules = (*QOS, *(rule for rule in SETTINGS if rule != "buffers"))
    first = replace(node_with("offloads"), facts=facts, rules=QOS).configured()
    node = replace(first, rules=rules)
    # The unit sets PFC already, which may turn global pause off.
    right = {rule for rule, verdict in node.verdicts().items() if verdict is Verdict.OK}
    assert right == {*QOS, "global_pause"}
    configured = node.configured()
    assert set(configured.verdicts().values()) == {Verdict.OK}, configured.files[UNIT]
    assert not configured.plan().devices


def test_modules_that_the_unit_loads_stay_in_it() -> None:
    node = node_with("rdma_modules")
    earlier = '[Service]\n# rdma_modules\nExecStart=-/bin/sh -c "modprobe ib_uverbs"\n'
    configured = replace(node, files={**node.files, UNIT: earlier}).configured()
    assert "modprobe -a ib_uverbs rdma_ucm" in configured.files[UNIT]


@cache
def rules_by_what_their_cases_fix() -> tuple[frozenset[str], frozenset[str]]:
    """Return the rules with a fix that a reboot would lose, and those of which a case judges the next boot."""
    lost, judged = set[str](), set[str]()
    for path in sorted(CASES.glob("*/*.yaml")):
        name = path.parent.name
        for finding in judge(CHECK_BOOK, site_of(load_yaml(path)), [CHECK_BOOK.rules[name]]):
            if finding.fix and finding.fix.persistence is not Persistence.KEPT:
                (judged if finding.fix.at_boot_only else lost).add(name)
    return frozenset(lost), frozenset(judged)


def test_every_rule_with_a_fix_that_a_reboot_would_lose_judges_the_next_boot() -> None:
    lost, judged = rules_by_what_their_cases_fix()
    assert lost >= {"pfc", "mtu", "governor", "rdma_modules"}
    assert lost - judged == set(EXCEPTIONS), "judge the next boot (check/shared/boot.py), or give the reason here"
    for name in judged:
        assert set(BOOT_PROBES) <= set(CHECK_BOOK.rules[name].probes), name


def test_the_table_in_the_documents_names_them() -> None:
    _, judged = rules_by_what_their_cases_fix()
    section = DOCUMENT.read_text().partition("### Right now, and after a reboot")[2].partition("\n### ")[0]
    table = section.partition("| rule | the next boot restores it from |")[2].partition("\n\n")[0]
    named = {name.strip(" `") for line in table.splitlines()[2:] for name in line.split("|")[1].split(",")}
    assert named == judged
    others = section.partition("| rule | why it does not judge the next boot |")[2].partition("\n\n")[0]
    assert {line.split("|")[1].strip(" `") for line in others.splitlines()[2:]} == set(EXCEPTIONS)
