"""Logins that fail, against real servers, agents and key files: each cause has its own message and hint."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from railbed.errors import DeviceError, HostKeyChanged, HostKeyUnknown, LoginRefused, Unreachable
from railbed.model.cluster import Login, Secret
from railbed.model.limits import DEVICE_SECONDS
from railbed.transport.base import Target
from railbed.transport.connect import live_connector
from tests.support.ports import free_port
from tests.support.sshd import SSHD, Server, Servers, running_servers

pytestmark = [pytest.mark.ssh, pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")]
SECRET = "open sesame"  # noqa: S105  (made for the test)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the account that runs the tests counts: no keys, no agent, no configuration."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(1, tmp_path) as servers:
        yield servers


def login(servers: Servers, **changes: object) -> Login:
    fields = {
        "user": servers.user,
        "port": servers.servers[0].port,
        "key": str(servers.key),
        "known_hosts": str(servers.known_hosts),
    }
    return Login.model_validate({**fields, **changes})


async def log_in(host: str, login: Login) -> None:
    async with live_connector() as connect, connect(Target(name="n1", host=host, login=login)):
        pass


async def failure(servers: Servers, host: str | None = None, **changes: object) -> DeviceError:
    """Return why a login fails; never with a secret in it, and always in sshd line."""
    with pytest.raises(DeviceError) as caught:
        await log_in(host or servers.servers[0].address, login(servers, **changes))
    text = caught.value.message + caught.value.hint
    assert SECRET not in text
    assert "\n" not in text
    return caught.value


@contextmanager
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch, *keys: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real agent with some keys, and end it."""
    path = folder / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()  # it says where it listens once it does
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        try:
            for key in keys:
                subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True, timeout=20)
            yield process
        finally:
            process.kill()
            path.unlink(missing_ok=True)


def make_key(path: Path, passphrase: str = "") -> Path:
    arguments = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "made for a test", "-f", str(path)]
    subprocess.run(arguments, check=True)
    return path


def fingerprint(key: Path) -> str:
    shown = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True)
    return shown.stdout.split()[1]


async def test_a_refused_login_names_the_key_and_the_user(sshd: Servers) -> None:
    (sshd.folder / "authorized_keys").write_text("")
    error = await failure(sshd)
    assert isinstance(error, LoginRefused)
    assert f"refused the login of {sshd.user}; tried {sshd.key} ({fingerprint(sshd.key)})" in error.message
    assert f"-i {sshd.key}" in error.hint
    assert "authorized_keys" in error.hint


async def test_a_refused_login_names_the_keys_of_the_agent(
    sshd: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path, monkeypatch, make_key(tmp_path / "a"), make_key(tmp_path / "b")):
        (sshd.folder / "authorized_keys").write_text("")
        error = await failure(sshd)
    assert f"{sshd.key} (SHA256:" in error.message
    assert f"2 keys of the agent at {tmp_path / 'agent'}" in error.message


async def test_a_refused_login_names_the_default_keys(sshd: Servers, home: Path) -> None:
    key = make_key(home / ".ssh" / "id_ed25519")
    error = await failure(sshd, key=None, user=None)
    assert f"{key} ({fingerprint(key)})" in error.message
    assert "the cluster file names no `user:`" in error.message


async def test_a_refused_password_is_named_by_its_place(sshd: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_TEST_PASSWORD", SECRET)
    error = await failure(sshd, key=None, password=Secret(env="RAILBED_TEST_PASSWORD"))
    assert "the password from the environment variable RAILBED_TEST_PASSWORD" in error.message


async def test_nothing_to_log_in_with_is_said(sshd: Servers) -> None:
    error = await failure(sshd, key=None, user=None)
    assert f"refused the login of {sshd.user} (the cluster file names no `user:`)" in error.message
    assert "no key in ~/.ssh, no agent and no password" in error.message
    assert "ssh-keygen" in error.hint


async def test_too_many_keys_of_the_agent_are_no_broken_connection(
    sshd: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH hangs up after six keys, before it comes to the right sshd."""
    with agent(tmp_path, monkeypatch, *(make_key(tmp_path / f"key{number}") for number in range(7))):
        error = await failure(sshd)
    assert isinstance(error, LoginRefused)
    assert "after too many keys" in error.message
    assert "7 keys of the agent" in error.message


def known_by_another_key(servers: Servers, name: str) -> None:
    key = " ".join((servers.folder / "other.pub").read_text().split()[:2])
    servers.known_hosts.write_text(f"{name} {key}\n")


@pytest.mark.parametrize("hashed", [False, True])
async def test_a_changed_host_key_is_called_changed_and_the_command_forgets_it(sshd: Servers, hashed: bool) -> None:
    make_key(sshd.folder / "other")
    server = sshd.servers[0]
    known_by_another_key(sshd, f"[{server.address}]:{server.port}")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(sshd.known_hosts)], check=True, capture_output=True)
    error = await failure(sshd)
    assert isinstance(error, HostKeyChanged)
    assert "has changed" in error.message
    assert str(sshd.known_hosts) in error.message
    assert fingerprint(sshd.folder / "host") in error.message
    command = f"ssh-keygen -R '[{server.address}]:{server.port}' -f {sshd.known_hosts}"
    assert f"`{command}`" in error.hint
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert type(await failure(sshd)) is HostKeyUnknown


async def test_a_host_key_of_another_kind_has_changed_too(sshd: Servers) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(sshd.folder / "other")], check=True)
    server = sshd.servers[0]
    known_by_another_key(sshd, f"[{server.address}]:{server.port}")
    error = await failure(sshd)
    assert isinstance(error, HostKeyChanged)
    assert "seems to have changed" in error.message
    assert f"ssh-keygen -R '[{server.address}]:{server.port}'" in error.hint


async def test_the_users_own_known_hosts_file_is_named(sshd: Servers, home: Path) -> None:
    make_key(sshd.folder / "other")
    server = sshd.servers[0]
    known_by_another_key(sshd, f"[{server.address}]:{server.port}")
    own = home / ".ssh" / "known_hosts"
    own.write_bytes(sshd.known_hosts.read_bytes())
    assert f"-f {own}`" in (await failure(sshd, known_hosts=None)).hint
    elsewhere = home / "known elsewhere"
    own.rename(elsewhere)
    (home / ".ssh" / "config").write_text(f'Host *\n  UserKnownHostsFile "{elsewhere}"\n')
    assert f"-f '{elsewhere}'`" in (await failure(sshd, known_hosts=None)).hint


async def test_an_unknown_host_key_is_not_called_changed(sshd: Servers) -> None:
    sshd.known_hosts.write_text("")
    error = await failure(sshd)
    assert not isinstance(error, HostKeyChanged)
    assert f"UserKnownHostsFile={sshd.known_hosts}" in error.hint  # where accepting it must put it


async def test_an_agent_that_does_not_answer_does_not_hold_up_a_key_file(
    sshd: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path, monkeypatch) as process:
        process.send_signal(signal.SIGSTOP)
        await log_in(sshd.servers[0].address, login(sshd))
        error = await failure(sshd, key=None)
    assert "not the agent at" in error.message
    assert "did not answer within 3 s" in error.message


async def test_the_agent_of_the_users_configuration_is_asked(
    sshd: Servers, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path, monkeypatch, sshd.key):
        monkeypatch.delenv("SSH_AUTH_SOCK")
        (home / ".ssh" / "config").write_text(f"Host *\n  IdentityAgent {tmp_path / 'agent'}\n")
        await log_in(sshd.servers[0].address, login(sshd, key=None))


async def test_a_dead_agent_is_named(sshd: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    await log_in(sshd.servers[0].address, login(sshd))
    assert "which cannot be used: No such file" in (await failure(sshd, key=None)).message


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
async def test_a_key_file_that_others_can_read_is_not_used(sshd: Servers, mode: int) -> None:
    sshd.key.chmod(mode)
    error = await failure(sshd)
    assert isinstance(error, LoginRefused)
    assert f"other users can read the key file {sshd.key} (mode {mode:04o})" in error.message
    assert f"`chmod 600 {sshd.key}`" in error.hint
    subprocess.run(["chmod", "600", str(sshd.key)], check=True)
    await log_in(sshd.servers[0].address, login(sshd))


async def test_a_missing_passphrase_and_a_wrong_one(
    sshd: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", SECRET, "-f", str(sshd.key)], check=True)
    missing = await failure(sshd)
    assert f"the key file {sshd.key} needs a passphrase, and none is configured" in missing.message
    assert f"`ssh-add {sshd.key}`" in missing.hint
    monkeypatch.setenv("RAILBED_TEST_PASSPHRASE", "wrong")
    wrong = await failure(sshd, passphrase=Secret(env="RAILBED_TEST_PASSPHRASE"))
    assert f"the environment variable RAILBED_TEST_PASSPHRASE does not open the key file {sshd.key}" in wrong.message
    with agent(tmp_path, monkeypatch):
        assert "needs a passphrase" in (await failure(sshd)).message  # the agent has no keys
    with agent(tmp_path, monkeypatch, make_key(tmp_path / "other")):
        refused = await failure(sshd)  # the agent has keys, and none is right
    assert f"not the key file {sshd.key}, which needs a passphrase" in refused.message


async def test_a_public_key_is_not_a_private_key(sshd: Servers) -> None:
    (sshd.folder / "client.pub").chmod(0o600)
    error = await failure(sshd, key=f"{sshd.key}.pub")
    assert "cannot be used" in error.message
    assert f"give the private key, {sshd.key}" in error.hint


async def test_a_name_that_does_not_resolve(sshd: Servers) -> None:
    error = await failure(sshd, host="no-such-host.invalid")
    assert "the name no-such-host.invalid does not resolve" in error.message
    assert "/etc/hosts" in error.hint


async def test_a_port_that_nobody_listens_on(sshd: Servers) -> None:
    error = await failure(sshd, port=free_port("127.0.0.1"), host="127.0.0.1")
    assert "Connection refused" in error.message
    assert "nothing listens on port" in error.hint


async def answering(data: bytes, hang_up: bool, writers: list[asyncio.StreamWriter]) -> asyncio.Server:
    """Start something on a port that is not an SSH server."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(data)
        if hang_up:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("data", "hang_up", "words"),
    [
        (b"", True, "hung up"),
        (b"HTTP/1.0 400 Bad Request\r\nServer: x\r\n\r\n<html>\r\n", True, "hung up"),
        (b"\x1b[31m" + bytes(range(128, 256)) * 200 + b"\n", False, "sent something else"),
        (b"SSH-1.5-old\r\n", False, "sent something else"),
        (b"220 mail.example ESMTP\r\n", False, "sent nothing"),
    ],
    ids=["hangs up", "web server", "garbage", "SSH 1", "mail server"],
)
async def test_a_port_that_is_not_a_ssh_server(
    sshd: Servers, monkeypatch: pytest.MonkeyPatch, data: bytes, hang_up: bool, words: str
) -> None:
    monkeypatch.setattr("railbed.transport.ssh.connection.CONNECT_SECONDS", 2.0)
    writers: list[asyncio.StreamWriter] = []
    async with await answering(data, hang_up, writers) as server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(sshd, host="127.0.0.1", port=port)
        for writer in writers:
            writer.close()
    assert isinstance(error, Unreachable)
    assert f"port {port} of 127.0.0.1 accepts connections but is not an SSH server: it " in error.message
    assert words in error.message
    assert error.message.isprintable()


async def test_a_server_that_stands_still_in_the_login(sshd: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railbed.transport.ssh.connection.CONNECT_SECONDS", 2.0)
    sshd.servers[0].freeze()
    error = await failure(sshd)
    assert "is not an SSH server: it sent nothing within 2 s" in error.message
    target = Target(name="n1", host=sshd.servers[0].address, login=login(sshd))
    with pytest.raises(DeviceError, match="it sent nothing within 4 s"):  # a slow machine gets twice the time
        async with live_connector(timeout=2 * DEVICE_SECONDS) as connect, connect(target):
            pass


async def test_a_jump_host_is_named_as_such(sshd: Servers) -> None:
    way = f"127.0.0.1:{free_port('127.0.0.1')}"
    assert (await failure(sshd, jump=way)).message.startswith("jump host: 127.0.0.1 port ")
    server: Server = sshd.servers[0]
    through = f"{sshd.user}@{server.address}:{server.port}"
    error = await failure(sshd, host="127.0.0.1", port=free_port("127.0.0.1"), jump=through)
    assert "cannot be reached from the jump host" in error.message
    assert through in error.hint


def test_no_home_is_touched() -> None:
    assert not (Path(os.environ["HOME"]) / ".ssh" / "known_hosts").exists()
