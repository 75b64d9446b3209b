"""The identity of a node: a tar archive that it unpacks over its own files."""

from __future__ import annotations

import hashlib
import io
import tarfile
import time
from pathlib import Path

from railbed.lab.model import HOST_MTU, LabNode, StoredLab, rail_name
from railbed.lab.vm.qemu.hardware import IDENTITY_BYTES

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
