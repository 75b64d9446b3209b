"""The switch's SSH host key."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh


def ensure_host_key(path: Path) -> Path:
    """Return the key file, generating an Ed25519 key readable by its owner only if there is none."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    key = asyncssh.generate_private_key("ssh-ed25519")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.export_private_key())
    path.with_name(path.name + ".pub").write_bytes(key.export_public_key())
    return path
