"""What a login can offer a machine: a key file, the agent's keys, a password; and why one of them cannot be used."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from railbed.errors import LoginRefused
from railbed.model.cluster import Login
from railbed.model.text import expand_home, plural
from railbed.model.writers import distrust
from railbed.transport.secret import secret_place

AGENT_SECONDS = 3.0
OTHERS = stat.S_IRWXG | stat.S_IRWXO
SHOWN_KEYS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAgent:
    """The user's SSH agent, and its answer to a query for its keys."""

    path: str
    keys: int = 0
    problem: str = ""
    """Why it cannot be used."""

    @property
    def shown(self) -> str:
        """A description for the sentence that lists what was tried."""
        if self.problem:
            return f"not the agent at {self.path}, which {self.problem}"
        return f"{plural(self.keys, 'key')} of the agent at {self.path}"


def agent_path(host: str, login: Login) -> str:
    """Return the path of the agent: the user's configuration may set one for this host."""
    if not has_configuration():
        return os.environ.get("SSH_AUTH_SOCK", "")
    try:
        # With client keys disabled asyncssh reads none; the agent it would forward is the one it would use.
        options = asyncssh.SSHClientConnectionOptions(
            host=host, config=(), username=login.user or (), client_keys=None, agent_forwarding=True
        )
    except (asyncssh.Error, OSError, ValueError):
        return os.environ.get("SSH_AUTH_SOCK", "")
    return options.agent_forward_path or ""


def has_configuration() -> bool:
    """Whether there is an OpenSSH configuration; refuse one of others, as ssh does: it names commands to execute."""
    path = Path("~/.ssh/config").expanduser()
    if not path.exists():
        return False
    if reason := distrust(path):
        own = "`sudo -H` without -E uses that of root; otherwise " if os.geteuid() == 0 else ""
        raise LoginRefused(
            f"{path} {reason}, and commands that it names, such as ProxyCommand, would be executed",
            hint=f"{own}`chmod go-w` and `chown` make it yours",
        )
    return True


async def query_agent(path: str) -> SshAgent:
    """Query the agent for its keys, with a time limit: a login must not hang on an agent that does not answer."""
    try:
        async with asyncio.timeout(AGENT_SECONDS), await asyncssh.connect_agent(path) as agent:
            keys = list(await agent.get_keys())
    except TimeoutError:
        return SshAgent(path=path, problem=f"did not answer within {AGENT_SECONDS:g} s")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return SshAgent(path=path, problem=f"cannot be used: {reason}")
    return SshAgent(path=path, keys=len(keys))


def key_files(login: Login, agent: SshAgent | None) -> list[str] | None:
    """Return the key of the cluster file; a key that needs an unknown passphrase is left to the agent."""
    if not login.key:
        return None
    path = expand_home(login.key)
    _refuse_unprotected(path)
    if login.passphrase is None:
        try:
            asyncssh.read_private_key(path)
        except asyncssh.KeyImportError as error:
            if agent and agent.keys:
                return None
            raise key_error(error, login, agent) from error
    return [str(path)]


def _refuse_unprotected(path: Path) -> None:
    """Refuse a key that other users can read, as OpenSSH does; a key that cannot be examined fails when it is read."""
    try:
        about = path.stat()
    except OSError:
        return
    if stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and about.st_mode & OTHERS:
        raise LoginRefused(
            f"other users can read the key file {path} (mode {stat.S_IMODE(about.st_mode):04o}), so it is not used",
            hint=f"`chmod 600 {shlex.quote(str(path))}` protects it; OpenSSH refuses such a key, too",
        )


def key_error(error: Exception, login: Login, agent: SshAgent | None) -> LoginRefused:
    """Return why a key file cannot be used: a passphrase that is missing or wrong, or no private key at all."""
    path = expand_home(login.key) if login.key else None
    named = f"the key file {path}" if path else "a key file of your SSH configuration"
    quoted = shlex.quote(str(path)) if path else "FILE"
    if "must be specified" in str(error):
        beside = f", and {agent.shown.removeprefix('not ')}" if agent and agent.problem else ""
        return LoginRefused(
            f"{named} needs a passphrase, and none is configured{beside}",
            hint=f"`ssh-add {quoted}` gives it to your agent; or name an environment variable in the cluster file: "
            "`passphrase: {env: NAME}` under `login:`",
        )
    if login.passphrase and ("Incorrect passphrase" in str(error) or "decrypt" in str(error)):
        return LoginRefused(
            f"the passphrase from {secret_place(login.passphrase)} does not open {named}",
            hint=f"`ssh-keygen -y -f {quoted}` asks for it and shows whether it is right",
        )
    public = path is not None and path.suffix == ".pub"
    hint = f"give the private key, {path.with_suffix('')}" if path and public else "correct `key:` in the cluster file"
    return LoginRefused(f"{named} cannot be used: {error}", hint=hint)


def describe_offers(options: asyncssh.SSHClientConnectionOptions, login: Login, agent: SshAgent | None) -> str:
    """Describe what was tried to log in: each key with its fingerprint, the agent, the source of the password."""
    pairs = list(options.client_keys or ())
    tried = [_shown_key(pair) for pair in pairs[:SHOWN_KEYS]]
    if len(pairs) > SHOWN_KEYS:
        tried.append(plural(len(pairs) - SHOWN_KEYS, "more key"))
    if login.key and not any(file_of(pair) == str(expand_home(login.key)) for pair in pairs):
        tried.append(f"not the key file {login.key}, which needs a passphrase")
    if agent:
        tried.append(agent.shown)
    if login.password:
        tried.append(f"the password from {secret_place(login.password)}")
    return ", ".join(tried)


def _shown_key(pair: asyncssh.SSHKeyPair) -> str:
    digest = base64.b64encode(hashlib.sha256(pair.key_public_data).digest()).decode().rstrip("=")
    name = file_of(pair) or pair.get_comment(errors="replace") or "a key"
    return f"{name} (SHA256:{digest})"


def file_of(pair: asyncssh.SSHKeyPair) -> str:
    """Return a key's file, which asyncssh keeps in a private attribute."""
    name = vars(pair).get("_filename")
    return os.fsdecode(name) if name else ""
