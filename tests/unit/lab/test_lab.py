"""The parts of a lab that need no machine: numbers, names, units, folders and locks."""

from __future__ import annotations

import json
import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disks import small_disk

from railbed.errors import RailbedError, ToolMissing, UsageError
from railbed.lab import folder, host
from railbed.lab.fault import describe, parse_delay, parse_percent, parse_rate
from railbed.lab.host import HostFault
from railbed.lab.kind import KINDS
from railbed.lab.model import Fault, Spec, StoredLab
from railbed.lab.netns.cabling import numbers_in_use
from railbed.lab.switch import MODELS, admit, port_of
from railbed.lab.vm import kind
from railbed.store.cache import cache_folder
from switchlab.nexus.model.platform import PLATFORMS

SPEC = Spec(name="x", kind="netns", nodes=2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of root's without any program."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(host, "SBIN", "")
    packages = {name.replace("/usr/", "/nonexistent/"): package for name, package in kind.BUILD_PACKAGES.items()}
    monkeypatch.setattr(kind, "BUILD_PACKAGES", packages)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10G", 10e9), ("500M", 5e8), ("1.5Gbit", 1.5e9), ("100 Mb/s", 1e8), ("40g", 4e10), ("64k", 64e3)],
)
def test_rates_as_people_write_them(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "10", "-1G", "0M", "1e9", "401G", "10GB", "١G"])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rate"):
        parse_rate(text)


@given(st.text())
def test_units_raise_only_our_own_error(text: str) -> None:
    for parse in (parse_rate, parse_delay, parse_percent):
        try:
            assert parse(text) >= 0
        except RailbedError:
            continue


@given(st.integers(1, 400_000).map(lambda number: number * 1e6))
def test_a_rate_is_reported_as_it_is_read(rate: float) -> None:
    assert parse_rate(describe(Fault("slow", "rail0", rate)).split()[1]) == pytest.approx(rate, rel=1e-5)


def test_a_lab_is_kept_whole_and_its_name_is_its_own() -> None:
    with folder.create_lab(SPEC, {1, 2}) as lab:
        assert lab.number == 3
        assert folder.load_labs() == [lab]
        with pytest.raises(UsageError, match="already"), folder.create_lab(SPEC, set()):
            pass
    folder.remove(lab)
    assert folder.load_labs() == []
    assert not cache_folder().exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 33, "a b", "-x", "ä"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid lab name"):
        folder.load_lab(name)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"spec": {}}', '{"spec": 1, "number": 1, "id": "x", "faults": []}'])
def test_a_broken_record_is_reported_with_its_file(text: str) -> None:
    path = folder.labs_folder() / "broken"
    path.mkdir(parents=True)
    (path / "lab.json").write_text(text)
    with pytest.raises(UsageError, match=r"lab\.json cannot be read"):
        folder.load_labs()


def _hold(ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    with folder.create_lab(SPEC, set()):
        ready.set()
        done.wait(20)


def test_a_lab_that_somebody_works_on_is_busy_until_they_are_gone() -> None:
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(ready, done))
    other.start()
    assert ready.wait(20)
    (lab,) = folder.load_labs()
    assert folder.is_busy(lab)
    assert other.pid is not None
    other.kill()
    other.join(20)
    assert not folder.is_busy(lab)


def test_numbers_whose_network_this_machine_uses_are_taken() -> None:
    addresses = json.dumps([{"ifname": "eth0", "addr_info": [{"local": "10.77.1.9", "prefixlen": 24}]}])
    routes = json.dumps([{"dst": "default"}, {"dst": "10.77.4.0/23"}, {"dst": "192.168.0.0/16"}])
    assert list(numbers_in_use(addresses, routes)) == [1, 4, 5]
    assert list(numbers_in_use("[]", json.dumps([{"dst": "10.0.0.0/8"}]))) == list(range(1, 255))


def test_addresses_follow_from_the_numbers(tmp_path: Path) -> None:
    lab = StoredLab(spec=Spec(name="x", kind="netns", nodes=2, rails=2), number=7, id="ab12", folder=tmp_path)
    assert [str(node.rail_address(rail)) for node, rail in lab.ports()] == [
        "10.100.7.1", "10.101.7.1", "10.100.7.2", "10.101.7.2"
    ]  # fmt: skip


def test_what_nodes_wrote_goes_with_their_lab_and_what_they_linked_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter").write_text("dear")
    with folder.create_lab(SPEC, set()) as lab:
        run = lab.folder / "homes" / "node1" / ".railbed" / "runs" / "job" / "node1"
        run.mkdir(parents=True)
        (run / "rank0.log").write_text("trained")
        (run / "link").symlink_to(tmp_path / "precious")
        (lab.folder / "link").symlink_to(tmp_path / "precious")
        run.chmod(0o500)
    folder.remove(lab)
    assert not cache_folder().exists()
    assert (tmp_path / "precious" / "letter").read_text() == "dear"


def test_a_disk_that_is_mounted_in_a_lab_is_left_alone(tmp_path: Path) -> None:
    with folder.create_lab(SPEC, set()) as lab:
        (lab.folder / "homes").mkdir()
        with small_disk(lab.folder / "homes" / "node1") as disk:
            (disk / "letter").write_text("dear")
            with pytest.raises(HostFault, match="node1 is a mount and was not removed"):
                folder.remove(lab)
            assert (disk / "letter").read_text() == "dear"
            assert folder.load_labs() == [lab]
    folder.remove(lab)
    assert not list(tmp_path.rglob("lab.json"))


def test_models_of_the_switch_are_those_of_the_emulator() -> None:
    assert set(MODELS) == set(PLATFORMS)
    for name, model in MODELS.items():
        (group,) = {PLATFORMS[name].port_group(number) for number in range(1, model.ports + 1)}
        assert {str(speed) for speed in model.speeds} == set(group.hardware.removesuffix(" Ethernet").split("/"))


def test_every_port_of_the_switch_is_used_once(tmp_path: Path) -> None:
    spec = Spec(name="x", kind="netns", nodes=6, rails=8, switch="n9k")
    lab = StoredLab(spec=spec, number=1, id="abcd", folder=tmp_path)
    ports = [port_of(lab, node, rail) for node, rail in lab.ports()]
    assert set(ports) <= set(PLATFORMS["n9k"].port_names)
    assert len(set(ports)) == 48


def test_more_nodes_than_switch_ports_are_refused() -> None:
    admit(Spec(name="x", kind="netns", nodes=32, switch="n5k"))
    with pytest.raises(UsageError, match="33 nodes on 1 rail need 33 switch ports, and n5k has 32"):
        admit(Spec(name="x", kind="netns", nodes=33, switch="n5k"))


@pytest.mark.parametrize(
    ("spec", "packages"),
    [
        (
            SPEC,
            "ethtool hostname iproute2 iputils-ping mount nftables openssh-client openssh-server util-linux",
        ),
        (
            replace(SPEC, scheduler="slurm", switch="n9k"),
            "ethtool hostname iproute2 iputils-ping mount munge nftables openssh-client openssh-server slurm-client "
            "slurmctld slurmd util-linux",
        ),
        (
            replace(SPEC, kind="vm", arch="aarch64", training=True, switch="n9k"),
            "coreutils debian-archive-keyring e2fsprogs kmod mmdebstrap openssh-client qemu-system-arm qemu-utils "
            "util-linux",
        ),
        (
            replace(SPEC, kind="vm", arch="x86_64"),
            "coreutils debian-archive-keyring e2fsprogs kmod mmdebstrap openssh-client qemu-system-x86 qemu-utils "
            "util-linux",
        ),
    ],
    ids=("netns", "slurm", "vm-training", "vm"),
)
@pytest.mark.usefixtures("bare_machine")
def test_a_bare_machine_gets_the_names_of_all_packages_at_once(
    spec: Spec, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "FOREIGN_PACKAGES", {})  # which these are depends on this machine's processor
    with pytest.raises(ToolMissing, match="the lab needs") as missing:
        KINDS[spec.kind].admit(spec)
    assert missing.value.hint == f"`apt-get install --no-install-recommends {packages}` installs what is missing"


def test_a_netns_lab_that_trains_needs_torch_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railbed.lab.netns.kind.PACKAGES", {})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("railbed.lab.netns.kind.find_spec", lambda _: None)
    KINDS["netns"].admit(SPEC)
    with pytest.raises(ToolMissing, match="the Python of railbed, which has no torch") as missing:
        KINDS["netns"].admit(replace(SPEC, training=True))
    assert missing.value.hint.startswith(f"`{sys.executable} -P -m pip install 'numpy>=2.1' ")
