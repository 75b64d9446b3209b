"""Commands for hardware that no lab has: they run on a made-up /sys and /proc, with made-up tools."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from railbed.clusterfile import loads
from railbed.model.cluster import Cluster
from railbed.probes import ethtool_module, ib_subnet, interrupts, mlxconfig, mlxlink, pcie_tuning, vendor_congestion
from railbed.probes.pcie_tuning import PciFunction

CARD, SWITCH, ROOT = "0000:03:00.0", "0000:02:00.0", "0000:00:01.0"


def cluster(*rdma: str) -> Cluster:
    ports = [
        {"netdev": f"eth{number}", "rail": "r", "address": f"10.0.0.{number + 1}", "rdma": name}
        for number, name in enumerate(rdma)
    ]
    return Cluster.model_validate(
        {"name": "c", "rails": {"r": {"subnet": "10.0.0.0/24"}}, "nodes": {"a": {"host": "192.0.2.1", "ports": ports}}}
    )


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    write(path, f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(folder: Path, command: object) -> str:
    """Run a command with everything below `folder` instead of the machine's own files, and our tools before others."""
    assert isinstance(command, str)
    script = command.replace("/sys/", f"{folder}/sys/").replace("/proc/", f"{folder}/proc/")
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A card below a bridge below a root port, as an RDMA device with an interface, and a GPU beside it."""
    devices = tmp_path / "sys/devices/pci0000:00" / ROOT
    card, gpu = devices / SWITCH / CARD, devices / SWITCH / "0000:04:00.0"
    write(card / "net/eth0/address")
    write(card / "infiniband/mlx5_0/fw_ver")
    write(card / "class", "0x020000\n")
    write(card / "numa_node", "1\n")
    write(card / "local_cpulist", "2-3\n")
    write(card / "iommu_group/type", "DMA-FQ\n")
    write(gpu / "class", "0x030200\n")
    write(gpu / "vendor", "0x10de\n")
    for irq, processor in ((40, 2), (41, 0)):
        write(card / f"msi_irqs/{irq}")
        write(tmp_path / f"proc/irq/{irq}/smp_affinity_list", "0-3\n")
        write(tmp_path / f"proc/irq/{irq}/effective_affinity_list", f"{processor}\n")
    links = {
        "bus/pci/devices/" + CARD: card,
        "bus/pci/devices/0000:04:00.0": gpu,
        "class/infiniband/mlx5_0": card / "infiniband/mlx5_0",
        "bus/pci/drivers/mlx5_core/" + CARD: card,
        "class/net/eth0": card / "net/eth0",
    }
    for name, target in links.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).symlink_to(target)
    for place in (card / "infiniband/mlx5_0/device", card / "net/eth0/device"):
        place.symlink_to(card)
    write(tmp_path / "proc/cmdline", "quiet password=secret intel_iommu=on iommu=pt\n")
    return tmp_path


def test_registers_of_everything_on_the_way(machine: Path) -> None:
    tool(machine, "setpci", 'case "$2 $3" in *03:00.0*EXP*) echo 5936 ;; *02:00.0*ACS*) echo 001d ;; *) exit 1 ;; esac')
    text = run(machine, pcie_tuning.COMMAND)
    assert "secret" not in text
    facts = pcie_tuning.parse(text)
    assert facts.options == ("intel_iommu=on", "iommu=pt")
    assert facts.guests == 0
    assert facts.functions[CARD] == PciFunction(
        kind="card",
        bridges=(ROOT, SWITCH),
        iommu="DMA-FQ",
        max_read_request=4096,
        max_payload=256,
        relaxed_ordering=True,
    )
    assert facts.functions["0000:04:00.0"].kind == "gpu"
    assert facts.functions[SWITCH].acs_redirects
    assert facts.functions[ROOT].acs_redirects is None


def test_guests_are_counted(machine: Path) -> None:
    write(machine / "sys/bus/pci/drivers/vfio-pci/0000:05:00.0")
    (machine / "sys/kernel/debug/kvm/4711-12").mkdir(parents=True)
    assert pcie_tuning.parse(run(machine, pcie_tuning.COMMAND)).guests == 2


def test_where_interrupts_go(machine: Path) -> None:
    tool(machine, "pidof", "exit 0")
    facts = interrupts.parse(run(machine, interrupts.COMMAND))
    own = facts.cards[CARD]
    assert facts.balancer
    assert (own.numa_node, own.near, own.count, own.taken_near) == (1, 2, 2, 1)


def test_firmware_tools_are_asked_for_each_port(machine: Path) -> None:
    tool(
        machine, "mlxconfig", 'echo "Device type: ConnectX6"; echo "Configurations: Next Boot"; echo " CNP_DSCP_P1 48"'
    )
    tool(machine, "mlxlink", 'echo "State : Active $*"')
    wanted = cluster("mlx5_0", "rxe0")
    assert run(machine, mlxconfig.command(wanted, "a")).startswith(f"==> {CARD}/1 <==\n")
    facts = mlxconfig.parse(run(machine, mlxconfig.command(wanted, "a")))
    assert list(facts.cards) == [f"{CARD}/1"]
    assert facts.cards[f"{CARD}/1"].after_boot("CNP_DSCP_P1") == 48
    ports = mlxlink.parse(run(machine, mlxlink.command(wanted, "a"))).ports
    assert ports[f"{CARD}/1"].state == f"Active -d {CARD} -p 1 -c"


def test_firmware_tools_are_asked_for_hcas_without_an_interface(machine: Path) -> None:
    tool(machine, "mlxlink", 'echo "State : Active $*"')
    text = (
        "name: c\nrails: {ib0: {infiniband: true}}\nnodes: {a: {host: 10.0.0.1, hcas: [{rdma: mlx5_0, rail: ib0}]}}\n"
    )
    command = mlxlink.command(loads(text, name="cluster.yaml"), "a")
    assert list(mlxlink.parse(run(machine, command)).ports) == [f"{CARD}/1"]


def test_firmware_tools_need_a_card_of_their_own(machine: Path) -> None:
    tool(machine, "mlxconfig", "echo called")
    write(machine / f"sys/bus/pci/devices/{CARD}/physfn")
    assert run(machine, mlxconfig.command(cluster("mlx5_0"), "a")) == ""
    assert mlxconfig.command(cluster(), "a") == ""


def test_without_firmware_tools_nothing_is_printed(machine: Path) -> None:
    command = (
        mlxlink.command(cluster("mlx5_0"), "a").replace("mlxlink", "no-such-mlxlink").replace("mstlink", "nothing")
    )
    assert run(machine, command) == ""


def test_modules_of_ports_on_rails(machine: Path) -> None:
    tool(machine, "ethtool", 'echo "Identifier : 0x11 (QSFP28)"; echo "Vendor name : $2"')
    facts = ethtool_module.parse(run(machine, ethtool_module.command(cluster("mlx5_0", "rxe0"), "a")))
    assert {name: module.vendor for name, module in facts.interfaces.items()} == {"eth0": "eth0"}


def test_congestion_settings_are_read_where_they_are(machine: Path) -> None:
    assert run(machine, vendor_congestion.COMMAND) == ""
    write(machine / "sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc/ecn_enable", "0x1\n")
    write(machine / "sys/module/irdma/parameters/dcqcn_enable", "Y\n")
    facts = vendor_congestion.parse(run(machine, vendor_congestion.COMMAND))
    assert facts.bnxt == {"bnxt_re0": {"ecn_enable": 1}}
    assert facts.irdma == {"": {"dcqcn_enable": 1}}


def test_subnet_managers_are_asked_on_infiniband_alone(machine: Path) -> None:
    port = machine / "sys/class/infiniband/mlx5_0/ports/1"
    write(port / "link_layer", "Ethernet\n")
    assert run(machine, ib_subnet.COMMAND) == ""
    write(port / "link_layer", "InfiniBand\n")
    write(port / "state", "4: ACTIVE\n")
    write(port / "pkeys/0", "0xffff\n")
    write(port / "pkeys/1", "0x0000\n")
    tool(machine, "sminfo", "echo sminfo: sm lid 1 sm guid 0x1, activity count 7 priority 14 state 3 SMINFO_MASTER")
    tool(machine, "saquery", "echo $*")
    text = run(machine, ib_subnet.COMMAND)
    assert "-C mlx5_0 -P 1 SMIR" in text
    facts = ib_subnet.parse(text)
    assert facts.pkeys == {"mlx5_0/1": (0xFFFF,)}
    assert facts.masters["mlx5_0/1"].priority == 14
