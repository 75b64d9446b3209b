"""The machines as QEMU's command line. All have the same devices: a snapshot resumes only on identical hardware.

The identity of a node: a tar archive that it unpacks over its own files.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railbed.lab.model import HOST_MTU, AcceleratorName, ArchitectureName, LabNode, StoredLab, rail_name
from railbed.lab.vm import recipe
from railbed.lab.vm.image import INITRD, KERNEL
from railbed.lab.vm.recipe import BOOT_OPTIONS, MOST_RAILS, architecture
from railbed.lab.vm.training import LAYER, training_folder

RAM, SAVED, BASE = "ram", "vmstate", "base.qcow2"
"""Files of a saved machine: its memory, all else, and its disk."""
SERIAL_LOG, MONITOR, DISK, IDENTITY = "serial.log", "qmp.sock", "disk.qcow2", "identity"
"""Files of a node."""
IDENTITY_BYTES = 1 << 20
CLOCK = "tcp:10.0.2.4:37-cmd:bash -c 'while read -t 60 -r _; do echo $EPOCHREALTIME; done'"
"""Where nodes ask for this machine's time (`guest/usr/lib/railbed/node.py`): a line with it for each line from them."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What may differ between labs, but not between the nodes of one."""

    arch: ArchitectureName
    accelerator: AcceleratorName
    memory: int
    training: str = ""
    """Key of the disk with what training needs; empty for machines without one."""


@dataclass(frozen=True, slots=True)
class QemuCable:
    """One end of a rail: a socket of our own and that of the other end, both relative to where QEMU runs."""

    own: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine to start."""

    name: str
    hardware: Hardware
    image: Path
    folder: str
    """Where its own files lie, relative to where QEMU runs."""
    disk: str = DISK
    ram: str | None = None
    """File that holds its memory; without one it starts with none."""
    ram_is_shared: bool = False
    """Whether what it writes into memory goes to that file."""
    door: str | None = None
    """Address and port of this machine that lead to its SSH."""
    cables: Sequence[QemuCable] = ()

    @property
    def tag(self) -> str:
        """The argument by which its process is found."""
        return f"guest={self.name}"


def command(machine: Machine) -> list[str]:
    """Return QEMU's command line."""
    hardware = machine.hardware
    arch = architecture(hardware.arch)
    board = arch.kvm_machine if hardware.accelerator == "kvm" else arch.machine
    size = f"id=ram,size={hardware.memory}M"
    sharing = "on" if machine.ram_is_shared else "off"
    memory = f"memory-backend-ram,{size}"
    if machine.ram:
        # QEMU ends an option at a comma; a comma that is meant is written twice.
        memory = f"memory-backend-file,{size},mem-path={machine.ram.replace(',', ',,')},share={sharing}"
    return [
        *(arch.qemu, "-name", machine.tag, "-nodefaults", "-no-user-config", "-display", "none"),
        *(
            "-machine",
            f"{board},memory-backend=ram",
            "-smp",
            "1",
            "-m",
            f"{hardware.memory}M",
            "-object",
            memory,
        ),
        *recipe.arguments(hardware.accelerator, arch),
        *("-kernel", str(machine.image / KERNEL), "-initrd", str(machine.image / INITRD)),
        *("-append", f"console={arch.console} {BOOT_OPTIONS}"),
        *("-chardev", f"file,id=console,path={machine.folder}/{SERIAL_LOG},append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,path={machine.folder}/{MONITOR},server=on,wait=off"),
        *("-mon", "chardev=monitor,mode=control"),
        *("-drive", f"if=none,id=root,file={machine.folder}/{machine.disk},format=qcow2,cache=unsafe,discard=unmap"),
        *("-device", "virtio-blk-pci,drive=root,addr=0x3"),
        *("-drive", f"if=none,id=identity,file={machine.folder}/{IDENTITY},format=raw,cache=writeback"),
        *("-device", "virtio-blk-pci,drive=identity,addr=0x4,serial=identity"),
        *_training(machine),
        *("-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng,addr=0xa"),
        *_network(machine),
    ]


def _training(machine: Machine) -> list[str]:
    """Return the disk with what training needs; it is only read, so that all nodes share it."""
    if not machine.hardware.training:
        return []
    file = str(training_folder(machine.image, machine.hardware.training) / LAYER).replace(",", ",,")
    drive = f"if=none,id=training,file={file},format=raw,readonly=on"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=training,addr=0xb,serial=training"]


def _network(machine: Machine) -> list[str]:
    door = f",hostfwd=tcp:{machine.door}-:22" if machine.door else ""
    arguments = ["-netdev", f"user,id=mgmt,restrict=on,ipv6=off,guestfwd={CLOCK}{door}"]
    arguments += ["-device", "virtio-net-pci,netdev=mgmt,addr=0x2,romfile=,mac=52:54:00:00:00:02"]
    for rail in range(MOST_RAILS):
        if rail < len(machine.cables):
            cable = machine.cables[rail]
            ends = f"local.type=unix,local.path={cable.own},remote.type=unix,remote.path={cable.other}"
            arguments += ["-netdev", f"dgram,id=rail{rail},{ends}"]
        else:
            arguments += ["-netdev", f"hubport,id=rail{rail},hubid={rail + 1}"]
        card = f"virtio-net-pci,netdev=rail{rail},id={card_name(rail)},addr={5 + rail:#x},romfile=,host_mtu={HOST_MTU}"
        arguments += ["-device", f"{card},mac=52:54:00:00:01:{rail:02x}"]
    return arguments


def card_name(rail: int) -> str:
    """Return what QEMU calls the network card of a rail."""
    return f"card{rail}"


NETWORK = """\
[Match]
Name={name}

[Link]
MACAddress={mac}
MTUBytes={mtu}

[Network]
Address={address}/24
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
LLDP=no
ConfigureWithoutCarrier=yes
"""
"""Addresses stay when a cable is cut."""
PRIVATE = 0o600


def write_identity(lab: StoredLab, node: LabNode, path: Path) -> None:
    """Write the archive, padded to the size of the disk in the saved machine."""
    with path.open("wb") as file:
        path.chmod(PRIVATE)
        file.write(_archive(identity_files(lab, node)))
        file.truncate(IDENTITY_BYTES)


def identity_files(lab: StoredLab, node: LabNode) -> dict[str, tuple[int, str]]:
    """Return the mode and text of every file of a node's identity."""
    key = lab.host_key(node.name)
    public = key.with_suffix(".host_key.pub")
    rails = range(lab.spec.rails)
    files = {
        "etc/hostname": (0o644, f"{node.name}\n"),
        "etc/hosts": (0o644, _hosts(lab)),
        "etc/machine-id": (
            0o444,
            hashlib.sha256(f"{lab.id} {lab.number} {node.name}".encode()).hexdigest()[:32] + "\n",
        ),
        "etc/railbed/rails": (0o644, "".join(f"{rail_name(rail)} {mac(node, rail)}\n" for rail in rails)),
        "etc/ssh/ssh_host_ed25519_key": (PRIVATE, key.read_text(encoding="ascii")),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, public.read_text(encoding="ascii")),
        "root/.ssh/authorized_keys": (PRIVATE, lab.key.with_suffix(".pub").read_text(encoding="utf-8")),
    }
    for rail in rails:
        text = NETWORK.format(name=rail_name(rail), mac=mac(node, rail), mtu=HOST_MTU, address=node.rail_address(rail))
        files[f"etc/systemd/network/30-{rail_name(rail)}.network"] = (0o644, text)
    return files


def mac(node: LabNode, rail: int) -> str:
    """Return the address of a node's network card on a rail."""
    return f"02:52:{node.lab:02x}:00:{rail:02x}:{node.number:02x}"


def _hosts(lab: StoredLab) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    for node in lab.nodes:
        lines.append(f"{node.rail_address(0)} {node.name} {node.name}-{rail_name(0)}")
        lines += [f"{node.rail_address(rail)} {node.name}-{rail_name(rail)}" for rail in range(1, lab.spec.rails)]
    return "\n".join(lines) + "\n"


def _archive(files: dict[str, tuple[int, str]]) -> bytes:
    buffer, now = io.BytesIO(), int(time.time())
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        folder = tarfile.TarInfo("root/.ssh")
        folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o700, now
        archive.addfile(folder)
        for name, (mode, text) in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, now
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
