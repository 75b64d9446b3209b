"""Why a connection failed: one sentence for each cause, and a hint."""

from __future__ import annotations

import errno
import os
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from railbed.errors import DeviceError, HostKeyChanged, HostKeyUnknown, LoginRefused, NotAdmitted, TimedOut, Unreachable
from railbed.model.cluster import Login
from railbed.model.text import expand_home
from railbed.transport.ssh.login import SshAgent, describe_offers, key_error

SSH_PORT = 22
OWN_KNOWN_HOSTS = "~/.ssh/known_hosts"
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)


class Client(asyncssh.SSHClient):
    """Records how far a connection got, and a host key that was not accepted."""

    def __init__(self) -> None:
        self.connection: asyncssh.SSHClientConnection | None = None
        self.refused: asyncssh.SSHKey | None = None
        self.known_as: tuple[str, str, int] = ("", "", SSH_PORT)
        """Name, address and port that the host key was looked up by."""
        self.password: str | None = None
        """The only credential, if there is one."""
        self.has_sent_password = False
        self.has_expired = False
        """The password is right, and must be changed before it is accepted."""

    def give_password(self) -> str | None:
        """Return the password, once: a server that asks again has refused it."""
        password, self.password = self.password, None
        self.has_sent_password = True
        return password

    def password_change_requested(self, prompt: str, lang: str) -> Any:  # noqa: ANN401, ARG002
        """Note that the password has expired; it is not changed."""
        self.has_expired = True
        return NotImplemented

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Note that the port answers."""
        self.connection = conn

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Reject unknown keys; remember them for the error message."""
        self.known_as = (host, addr, port)
        self.refused = key
        return False

    def detail(self, name: str) -> str:
        """Return a property of the connection: `username`, `server_version`."""
        return str(self.connection.get_extra_info(name) or "") if self.connection else ""


@dataclass(frozen=True, kw_only=True)
class LoginAttempt:
    """One attempt to log in."""

    host: str
    login: Login
    seconds: float
    agent: SshAgent | None = None
    tunnelled: bool = False
    by_password: bool = False
    """With the password alone."""
    arguments: dict[str, object] = field(default_factory=dict)
    client: Client = field(default_factory=Client)

    @property
    def place(self) -> str:
        """The host, with its port if the login sets one."""
        return f"{self.host} port {self.login.port}" if self.login.port else self.host

    @property
    def bind_address(self) -> str:
        """The address of this machine that the user's configuration wants as source; empty if it does not matter."""
        local = self.options().local_addr
        return str(local[0]) if local else ""

    @property
    def by_hand(self) -> str:
        """The command that tries the same login."""
        login = self.login
        words = ["ssh"]
        words += ["-p", str(login.port)] if login.port else []
        words += ["-J", login.jump] if login.jump else []
        words += ["-i", str(expand_home(login.key))] if login.key else []
        known = expand_home(login.known_hosts) if login.known_hosts else None
        words += ["-o", f"UserKnownHostsFile={known}"] if known else []
        return shlex.join([*words, f"{login.user}@{self.host}" if login.user else self.host])

    def as_argument(self, user: str) -> str:
        """Return the machine as it is named on a command line."""
        return shlex.quote(f"{user}@{self.host}" + (f":{self.login.port}" if self.login.port else ""))

    def options(self) -> asyncssh.SSHClientConnectionOptions:
        """Return asyncssh's options for the login and the user's configuration."""
        return asyncssh.SSHClientConnectionOptions(host=self.host, config=(), **self.arguments)


def explain(error: Exception, attempt: LoginAttempt) -> DeviceError:  # noqa: PLR0911  (one for each cause)
    """Return the error that explains to the user what happened."""
    match error:
        case TimeoutError():
            return _explain_timeout(attempt)
        case asyncssh.HostKeyNotVerifiable():
            return _host_key(error, attempt)
        case asyncssh.PermissionDenied():
            return _explain_refusal(attempt)
        case asyncssh.KeyImportError() | asyncssh.KeyEncryptionError():
            return key_error(error, attempt.login, attempt.agent)
        case asyncssh.ConfigParseError():
            return LoginRefused(f"your SSH configuration cannot be used: {error}", hint="correct ~/.ssh/config")
        case asyncssh.ChannelOpenError():
            return _beyond_jump(error, attempt)
        case OSError():
            return _os_error(error, attempt)
        case asyncssh.Error():
            return _explain_end(attempt, error.reason, hung_up=isinstance(error, asyncssh.ConnectionLost))
        case _:
            hint = f"try `{attempt.by_hand}`"
            return LoginRefused(f"the login to {attempt.host} cannot be used: {error}", hint=hint)


def _explain_timeout(attempt: LoginAttempt) -> DeviceError:
    if attempt.client.detail("username") and attempt.client.detail("server_version"):
        waiting = f"; is the agent at {attempt.agent.path} waiting for you to confirm?" if attempt.agent else ""
        return TimedOut(
            f"{attempt.place} did not finish the login within {attempt.seconds:g} s",
            hint=f"try `{attempt.by_hand}`{waiting}",
        )
    if attempt.client.connection:
        return _no_ssh(attempt, f"sent nothing within {attempt.seconds:g} s", TimedOut)
    return TimedOut(
        f"no answer from {attempt.place} within {attempt.seconds:g} s",
        hint=f"is it on, is {attempt.host} its address, does a firewall drop the packets?",
    )


def _no_ssh(attempt: LoginAttempt, did: str, kind: type[Unreachable] = Unreachable) -> DeviceError:
    port = attempt.login.port or SSH_PORT
    return kind(
        f"port {port} of {attempt.host} accepts connections but is not an SSH server: it {did}",
        hint=f"is {port} its SSH port? An SSH server that has too many logins at once (MaxStartups) or blocks this "
        "address also hangs up at once",
    )


def _os_error(error: OSError, attempt: LoginAttempt) -> DeviceError:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) and error.filename:
        return LoginRefused(
            f"{error.filename} cannot be read: {error.strerror}", hint="correct `login:` in the cluster file"
        )
    if error.errno == errno.EADDRNOTAVAIL and (address := attempt.bind_address):
        return LoginRefused(
            f"this machine has no address {address}, from which {attempt.host} is to be reached",
            hint="correct `BindAddress` in ~/.ssh/config; `ip addr` lists the addresses of this machine",
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(
            f"the name {attempt.host} does not resolve: {error.strerror}",
            hint=f"`getent hosts {shlex.quote(attempt.host)}` must find it: correct the name, add it to /etc/hosts, or "
            "give the address",
        )
    if attempt.client.connection:
        return _explain_end(attempt, _reason(error), hung_up=True)
    return Unreachable(f"{attempt.place} cannot be reached: {_reason(error)}", hint=_network_hint(error, attempt))


def _network_hint(error: OSError, attempt: LoginAttempt) -> str:
    port = attempt.login.port or SSH_PORT
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens on port {port} there: does its SSH server run (`systemctl status ssh`), on this port?"
    if error.errno in NO_ROUTE:
        route = f"`ip route get {shlex.quote(attempt.host)}`"
        return f"there is no route to it from here: {route} shows which one is used; is it on and cabled?"
    return f"is it on, is {attempt.host} its address, does its SSH server run?"


def _reason(error: OSError) -> str:
    """Return the system's message; asyncio wraps it if it tried several addresses."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def _beyond_jump(error: asyncssh.ChannelOpenError, attempt: LoginAttempt) -> DeviceError:
    hint = f"is it on, and is {attempt.place} the address that the jump host {attempt.login.jump} can reach it by?"
    return Unreachable(f"{attempt.place} cannot be reached from the jump host: {error.reason}", hint=hint)


def _explain_end(attempt: LoginAttempt, reason: str, *, hung_up: bool) -> DeviceError:
    if not attempt.client.detail("server_version"):
        return _no_ssh(attempt, "hung up" if hung_up else f"sent something else ({reason})")
    # Only keys of known types are accepted, and a server without one hangs up before anything is encrypted.
    if not attempt.client.detail("send_cipher") and (known := list(_find_keys(attempt))):
        return _explain_change(
            attempt, known, "may have only a key of another type, since it broke off", seems="seems to have"
        )
    if "oo many authentication failures" in reason:
        return _explain_refusal(attempt, because=" after too many keys")
    return Unreachable(f"{attempt.place} broke off the connection: {reason}", hint=f"try `{attempt.by_hand}`")


def _explain_refusal(attempt: LoginAttempt, because: str = "") -> DeviceError:
    options = attempt.options()
    user = attempt.client.detail("username") or options.username
    if attempt.by_password:
        return _explain_password(attempt, user)
    tried = describe_offers(options, attempt.login, attempt.agent)
    account = user if attempt.login.user else f"{user} (the cluster file names no `user:`)"
    if not tried:
        return NotAdmitted(
            f"{attempt.host} refused the login of {account}: no key in ~/.ssh, no agent and no password to try",
            hint=f"`railbed discover --set-up {attempt.as_argument(user)}` creates a key and installs it there, as "
            "`ssh-keygen` and `ssh-copy-id` do; or name one as `key:`",
            user=user,
        )
    few = "; name the right one as `key:`, so that it is tried first" if because else ""
    return NotAdmitted(
        f"{attempt.host} refused the login of {account}{because}; tried {tried}",
        hint=f"is the public key in that account's authorized_keys there? `{attempt.by_hand}` tries the same{few}",
        user=user,
    )


def _explain_password(attempt: LoginAttempt, user: str) -> DeviceError:
    if attempt.client.has_expired:
        expired = f"{attempt.place} wants a new password for {user}: the current one has expired"
        return NotAdmitted(expired, hint=f"`{attempt.by_hand}` asks for it", user=user)
    if attempt.client.has_sent_password:
        hint = "is it that of this account on this machine? An sshd that admits no passwords for it refuses it, too"
        return NotAdmitted(f"{attempt.place} refused the password of {user}", hint=hint, user=user)
    return NotAdmitted(
        f"{attempt.place} takes no password from {user}",
        hint="allow it in its sshd_config for a moment (`PasswordAuthentication yes`), or add your public key to that "
        "account's authorized_keys by other means",
        user=user,
    )


def _host_key(error: asyncssh.HostKeyNotVerifiable, attempt: LoginAttempt) -> DeviceError:
    key = attempt.client.refused
    if key is None:
        # A revoked key is not one that a person may confirm.
        kind = HostKeyChanged if "revoked" in error.reason else HostKeyUnknown
        return kind(
            f"the host key of {attempt.place} cannot be trusted: {error.reason}", hint=f"try `{attempt.by_hand}`"
        )
    shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
    known = list(_find_keys(attempt))
    if known:
        return _explain_change(attempt, known, f"now shows {shown}")
    where = ", ".join(map(str, known_hosts_files(attempt)))
    return HostKeyUnknown(
        f"the host key of {attempt.place} is not in {where}: it shows {shown}",
        hint="on that machine, compare with `ssh-keygen -lf` of its /etc/ssh/ssh_host_*_key.pub; if they are equal, "
        f"run `{attempt.by_hand}` once and accept it",
    )


def _explain_change(attempt: LoginAttempt, known: list[tuple[Path, str]], now: str, seems: str = "has") -> DeviceError:
    forget = "; ".join(f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(str(file))}" for file, name in known)
    files = ", ".join(dict.fromkeys(str(file) for file, _ in known))
    return HostKeyChanged(
        f"the host key of {attempt.place} {seems} changed: {files} has another one, and it {now}",
        hint="if the machine was reinstalled or replaced, and a comparison on it (`ssh-keygen -lf` of its "
        f"/etc/ssh/ssh_host_*_key.pub) agrees, `{forget}` forgets the old key; if not, somebody may be intercepting "
        "the connection",
    )


def _find_keys(attempt: LoginAttempt) -> Iterator[tuple[Path, str]]:
    """Yield each file that has a key of the machine, with the name it is listed under."""
    host, address, port = attempt.client.known_as
    host = host or attempt.host
    port = port if attempt.client.refused else attempt.login.port or SSH_PORT
    for file in known_hosts_files(attempt):
        for name in dict.fromkeys(filter(None, (host, address))):
            for form in dict.fromkeys((name if port == SSH_PORT else f"[{name}]:{port}", name)):
                if _has_key(file, form):
                    yield file, form


def _has_key(file: Path, name: str) -> bool:
    try:
        return bool(asyncssh.read_known_hosts(str(file)).match(name, "", None)[0])
    except (OSError, ValueError):
        return False


def known_hosts_files(attempt: LoginAttempt) -> list[Path]:
    """Return the files that were searched: the cluster file's, or those of the user's configuration."""
    if attempt.login.known_hosts:
        return [expand_home(attempt.login.known_hosts)]
    configured = attempt.options().known_hosts
    names = [name for name in configured if isinstance(name, str)] if isinstance(configured, list | tuple) else []
    return [expand_home(name) for name in names or [OWN_KNOWN_HOSTS]]
