"""SSH keys made for one lab, and the known_hosts file that lets a client trust its devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from railbed.lab.host import run, together
from railbed.lab.model import StoredLab


async def make_keys(lab: StoredLab) -> None:
    """Make the key that logs in, and a host key for every device."""
    names = {lab.key: f"railbed lab {lab.spec.name}"} | {lab.host_key(name): name for name in lab.devices}
    await together(_make_key(path, name) for path, name in names.items())


def write_known_hosts(lab: StoredLab, doors: Mapping[str, tuple[str, int]]) -> None:
    """Write the host key of each device with the address and port it listens on."""
    lines = []
    for name, (host, port) in doors.items():
        kind, key, *_ = lab.host_key(name).with_suffix(".host_key.pub").read_text(encoding="ascii").split()
        lines.append(f"{host if port == 22 else f'[{host}]:{port}'} {kind} {key}\n")
    lab.known_hosts.write_text("".join(lines), encoding="ascii")


async def _make_key(path: Path, comment: str) -> None:
    await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
