"""The first contact with a machine: the host key that it shows, the key that it is to admit, the hosts on the way."""

from __future__ import annotations

import base64
import getpass
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from railbed.errors import LoginRefused, UsageError, os_reason
from railbed.model.cluster import Login
from railbed.model.private import for_us_alone, make_private
from railbed.model.text import expand_home
from railbed.model.writers import first_gap, user_name
from railbed.transport.ssh.errors import SSH_PORT, Client, LoginAttempt, known_hosts_files
from railbed.transport.ssh.login import file_of

PLAIN_KEYS = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
"""Host keys without a certificate, in the order in which OpenSSH asks for them."""
TRUST_NONE = asyncssh.import_known_hosts("")
DEFAULT_KEY = "~/.ssh/id_ed25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """The host key that a machine showed."""

    device: str
    host: str
    name: str
    """How OpenSSH lists the machine: its host or alias, with a port that is not the usual one."""
    public: str
    """Algorithm and key, as in known_hosts."""
    fingerprint: str
    file: Path
    """Where OpenSSH would add it."""

    @property
    def algorithm(self) -> str:
        """The kind of key."""
        return self.public.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key that can be installed on machines."""

    public: str
    """Algorithm and key, as in authorized_keys."""
    source: str
    """Its private key: a file, or the agent."""


def shown_key(device: str, host: str, login: Login, client: Client) -> HostKey:
    """Return the key that a machine showed to a client that trusts none."""
    assert client.refused is not None
    attempt = LoginAttempt(host=host, login=login, seconds=0, arguments=_place(login))
    name, _, port = client.known_as
    alias = attempt.options().host_key_alias
    plain = name.lower() if alias or port == SSH_PORT else f"[{name.lower()}]:{port}"
    return HostKey(
        device=device,
        host=attempt.place,
        name=plain,
        public=" ".join(client.refused.export_public_key("openssh").decode().split()[:2]),
        fingerprint=client.refused.get_fingerprint(),
        file=known_hosts_files(attempt)[0],
    )


def jump_hosts(host: str, login: Login) -> list[str]:
    """Return the hosts on the way to a machine, nearest first: that of the login, or of the user's configuration."""
    if login.jump:
        return [login.jump]
    attempt = LoginAttempt(host=host, login=login, seconds=0, arguments=_place(login))
    tunnel = attempt.options().tunnel
    hops = tunnel.split(",") if isinstance(tunnel, str) else []
    return [hop.strip() for hop in hops if hop.strip() and hop.strip() != "none"]


def bind_address(host: str, login: Login) -> str:
    """Return the address of this machine that the user's configuration wants as source; empty if it names none."""
    return LoginAttempt(host=host, login=login, seconds=0, arguments=_place(login)).bind_address


def _place(login: Login) -> dict[str, Any]:
    named = {"username": login.user, "port": login.port, "client_keys": None}
    return {name: value for name, value in named.items() if value is not None or name == "client_keys"}


def public_keys(pairs: Iterable[asyncssh.SSHKeyPair]) -> Iterator[PublicKey]:
    """Yield keys without their certificates."""
    for pair in pairs:
        data = pair.key_public_data
        algorithm = data[4 : 4 + int.from_bytes(data[:4], "big")].decode("ascii", "replace")
        source = file_of(pair) or "your SSH agent"
        yield PublicKey(public=f"{algorithm} {base64.b64encode(data).decode()}", source=source)


def public_half(path: Path) -> PublicKey:
    """Return the public key beside a private one that only the agent can use."""
    try:
        key = asyncssh.read_public_key(f"{path}.pub")
    except (OSError, asyncssh.KeyImportError) as error:
        raise LoginRefused(
            f"the key file {path} needs a passphrase, and its public key cannot be read: {error}",
            hint=f"`ssh-keygen -y -f {path} >{path}.pub` makes it again",
        ) from error
    public = " ".join(key.export_public_key("openssh").decode().split()[:2])
    return PublicKey(public=public, source=str(path))


def create_key(path: Path) -> PublicKey:
    """Create a key that no file is overwritten for, and of which there is nothing if that fails."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=f"{getpass.getuser()}@{socket.gethostname()}")
    try:
        make_private(path.parent)
        if gap := first_gap(path):
            who = gap.writers or user_name(gap.owner)
            raise UsageError(
                f"no key is created at {path}: {who} could replace it at {gap.place}",
                hint="`chmod go-w` closes it, or `--key FILE` names another place",
            )
        _write_new(path, key.export_private_key("openssh"))
        _write_new(path.with_name(f"{path.name}.pub"), key.export_public_key("openssh"), mode=0o644)
    except FileExistsError as error:
        raise UsageError(
            f"no key is created, since {error.filename2 or error.filename} exists and is not used",
            hint=f"if it needs a passphrase, `ssh-add {path}` gives it to your agent; `--key FILE` creates another one",
        ) from error
    except OSError as error:
        raise UsageError(f"the key {path} cannot be created: {os_reason(error)}", hint="--key names it") from error
    public = " ".join(key.export_public_key("openssh").decode().split()[:2])
    return PublicKey(public=public, source=str(path))


def _write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that does not exist: as a whole, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb", opener=for_us_alone) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.link(temporary, path)  # unlike a renaming, it replaces nothing
    finally:
        temporary.unlink(missing_ok=True)


def key_path(login: Login) -> Path:
    """Return where the key of a login is, or would be created."""
    return expand_home(login.key or DEFAULT_KEY)
