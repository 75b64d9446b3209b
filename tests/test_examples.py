"""Every example loads and describes its site; its recording shows what is wrong there."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path

import pytest
from tools.recordings import recordings

from railbed.clusterfile import load
from railbed.model.cluster import Cluster
from tests.support.cli import railbed
from tests.support.recordings import SHIPPED

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


RECORDED = sorted(path for path in SHIPPED.iterdir() if path.is_dir())
PROBLEMS = {
    "two-roce-vms": {"mtu vm2/ens192", "pfc vm2/ens192", "cabling vm2/ens192", "pcie_bandwidth vm2/ens192"},
    "eight-vms-nexus": {
        "reachable vm8",
        "hostname_unique vm3",
        "global_pause vm5/ens192",
        "switch_pfc nexus/Ethernet1/5",
    },
    "three-desktops": {"gpu_driver cellar", "torch_gpu_architecture study", "gpu_inventory study"},
    "v100-back-to-back": {
        "rail_address gpu2/ens3f1",
        "gid_rocev2 gpu1/ens3f0",
        "governor gpu1",
        "torch_gpu_architecture gpu1",
    },
}
"""What each recording is there to show; it may show more."""


def example(name: str) -> Cluster:
    return load(EXAMPLES / f"{name}.yaml")


def devices(cluster: Cluster) -> list[str]:
    return sorted({f"{port.rdma}/{port.rdma_port} on {port.netdev}" for _, port in cluster.ports() if port.rdma})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    assert load(path).name == path.stem
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text()


def test_there_are_five() -> None:
    assert len(FILES) == 5


def test_two_roce_vms() -> None:
    cluster = example("two-roce-vms")
    assert [str(port.address) for _, port in cluster.ports()] == ["192.168.250.201", "192.168.250.202"]
    assert devices(cluster) == ["rocep11s0/1 on ens192"]
    assert cluster.rails["rail0"].speed == 10
    password = cluster.switches["nexus"].login.password
    assert password is not None
    assert password.env == "NEXUS_PASSWORD"


def test_eight_vms_nexus() -> None:
    cluster = example("eight-vms-nexus")
    assert len(cluster.nodes) == 8
    assert devices(cluster) == ["rocep11s0/1 on ens192", "rocep19s0/1 on ens224"]
    assert len(cluster.switches["nexus"].ports) == 8
    assert cluster.login.jump == "ubuntu@jump.lab.example"


def test_three_desktops() -> None:
    cluster = example("three-desktops")
    assert devices(cluster) == []
    assert [gpu.memory_gb for node in cluster.nodes.values() for gpu in node.gpus] == [12, 8, 8]
    assert (cluster.policy.pfc, cluster.policy.ecn, cluster.policy.host_mtu) == (False, False, 1500)
    assert cluster.rails["lan"].speed == 1
    assert not cluster.switches


def test_v100_back_to_back() -> None:
    cluster = example("v100-back-to-back")
    assert [(rail.point_to_point, rail.speed) for rail in cluster.rails.values()] == [(True, 40), (True, 40)]
    assert devices(cluster) == ["rocep130s0/1 on ens3f0", "rocep130s0/2 on ens3f1"]
    assert not cluster.switches


def test_v100_switched_has_the_same_servers() -> None:
    cluster, cabled = example("v100-switched"), example("v100-back-to-back")
    assert devices(cluster) == devices(cabled)
    assert [node.gpus for node in cluster.nodes.values()] == [node.gpus for node in cabled.nodes.values()]
    assert not any(rail.point_to_point for rail in cluster.rails.values())
    assert len(cluster.switches["n9332pq"].ports) == 4


def test_recordings_are_fresh() -> None:
    written = {str(path.relative_to(SHIPPED)): path for path in SHIPPED.rglob("*") if path.is_file()}
    assert written.keys() - {"README.md"} == recordings().keys()
    for name, text in recordings().items():
        assert written[name].read_text() == text, "run `make docs`"


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_a_recording_shows_what_is_wrong_with_its_site(folder: Path, tmp_path: Path) -> None:
    result = railbed(tmp_path, "check", "--replay", folder, "--json")
    assert result.code == 1, result
    wrong = {
        f"{finding['check']} {finding['subject']}"
        for finding in result.findings
        if finding["verdict"] in ("fail", "warn")
    }
    assert wrong >= PROBLEMS[folder.name]
    unread = [finding for finding in result.findings if "not in the recording" in finding["observed"]]
    assert unread == []
    assert f"({folder.name}/cluster.yaml)" in (SHIPPED / "README.md").read_text()


def test_recordings_say_nothing_of_real_machines() -> None:
    for path in SHIPPED.rglob("*.jsonl"):
        text = path.read_text()
        assert path.stat().st_size < 100_000, path
        for address in re.findall(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])", text):
            assert ip_address(address).is_private or address == "0.0.0.0", (path, address)  # noqa: S104
