"""The SSH server, with OpenSSH's own client and with asyncssh."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from switchlab.common.hostkey import ensure_host_key
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.service import Emulator
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import PASSWORD

PATIENCE = 60.0


@pytest.fixture
async def emulator(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> AsyncIterator[Emulator]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(tmp_path / "id")
    (tmp_path / "id").chmod(0o600)
    key.write_public_key(tmp_path / "authorized_keys")
    async with emulate(switch, authorized_keys=tmp_path / "authorized_keys") as running:
        yield running


async def openssh(emulator: Emulator, folder: Path, *arguments: str, typed: str = "", password: bool = False) -> str:
    """Run OpenSSH's client against the switch; return what it printed."""
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{emulator.ssh_port} {public}")
    login = (
        ["-o", "PubkeyAuthentication=no"] if password else ["-i", str(folder / "id"), "-o", "PasswordAuthentication=no"]
    )
    environment = dict(os.environ)
    if password:
        script = folder / "askpass"
        script.write_text(f"#!/bin/sh\necho {PASSWORD}\n")
        script.chmod(0o700)
        environment |= {"SSH_ASKPASS": str(script), "SSH_ASKPASS_REQUIRE": "force"}
    process = await asyncio.create_subprocess_exec(
        *("ssh", "-F", "none", "-p", str(emulator.ssh_port), "-o", f"UserKnownHostsFile={folder / 'known_hosts'}"),
        *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", *login),
        *(arguments[:1] if arguments[:1] == ("-tt",) else ()),
        "admin@127.0.0.1",
        *(arguments[1:] if arguments[:1] == ("-tt",) else arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    output, errors = await asyncio.wait_for(process.communicate(typed.encode()), PATIENCE)
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def test_one_command_with_a_key(emulator: Emulator, tmp_path: Path) -> None:
    assert (await openssh(emulator, tmp_path, "show hostname")).strip() == "switch"


async def test_one_command_with_a_password(emulator: Emulator, tmp_path: Path) -> None:
    assert (await openssh(emulator, tmp_path, "show hostname", password=True)).strip() == "switch"


async def test_several_commands_and_errors_in_the_text_only(emulator: Emulator, tmp_path: Path) -> None:
    output = await openssh(emulator, tmp_path, "show hostname ; show foo ; show hostname")
    assert output.splitlines() == ["switch ", "      ^", "% Invalid command at '^' marker.", "switch "]


async def test_a_shell_without_a_terminal(emulator: Emulator, switch: Switch, tmp_path: Path) -> None:
    typed = "configure terminal\ninterface e1/1\nmtu 9216\nend\nshow running-config\nexit\n"
    output = await openssh(emulator, tmp_path, typed=typed)
    assert "switch(config-if)# " in output
    assert "interface mgmt0" in output
    assert switch.running.interfaces["Ethernet1/1"].mtu == 9216


async def test_a_terminal_echoes_and_pages(emulator: Emulator, tmp_path: Path) -> None:
    output = await openssh(emulator, tmp_path, "-tt", typed="show version\rq\rterminal length 0\rshow version\rexit\r")
    first, second = output.split("terminal length 0")
    assert "switch# show version\r\n" in first
    assert "--More--" in first
    assert "plugin" not in first
    assert "Core Plugin, Ethernet Plugin" in second
    assert "--More--" not in second


async def log_in(
    emulator: Emulator, password: str, known: asyncssh.SSHKnownHosts | None = None
) -> asyncssh.SSHClientConnection:
    options = asyncssh.SSHClientConnectionOptions(
        username="admin", password=password, known_hosts=known, client_keys=None, config=None
    )
    return await asyncssh.connect("127.0.0.1", emulator.ssh_port, options=options)


@pytest.fixture
async def client(emulator: Emulator, tmp_path: Path) -> AsyncIterator[asyncssh.SSHClientConnection]:
    known = asyncssh.import_known_hosts(f"[127.0.0.1]:{emulator.ssh_port} {(tmp_path / 'host_key.pub').read_text()}")
    async with await log_in(emulator, PASSWORD, known) as connection:
        yield connection


Process = asyncssh.SSHClientProcess[str]


@asynccontextmanager
async def terminal(client: asyncssh.SSHClientConnection, rows: int = 24) -> AsyncIterator[Process]:
    async with client.create_process(term_type="vt100", term_size=(80, rows)) as process:
        await expect(process, "switch# ")
        yield process


async def expect(process: Process, text: str) -> str:
    """Read until the output contains a text."""
    output = ""
    async with asyncio.timeout(PATIENCE):
        while text not in output:
            chunk = await process.stdout.read(1024)
            assert chunk, f"the switch closed the session after {output!r}"
            output += chunk
    return output


async def test_paging_by_line_and_page(client: asyncssh.SSHClientConnection) -> None:
    async with terminal(client, rows=4) as process:
        process.stdin.write("show vlan brief\r")
        assert len((await expect(process, "--More--")).splitlines()) == 5
        process.stdin.write("\r")
        assert (await expect(process, "--More--")).count("\n") == 1
        process.stdin.write(" ")
        await expect(process, "--More--")
        process.stdin.write("q")
        await expect(process, "switch# ")


async def test_no_more_turns_paging_off_for_one_command(client: asyncssh.SSHClientConnection) -> None:
    async with terminal(client, rows=4) as process:
        process.stdin.write("show vlan brief | no-more\r")
        assert "--More--" not in await expect(process, "switch# ")


async def test_configuring_in_one_exec_request(client: asyncssh.SSHClientConnection, switch: Switch) -> None:
    result = await client.run("configure terminal ; interface e1/1 ; mtu 9216 ; no shutdown")
    assert result.stdout == "Enter configuration commands, one per line. End with CNTL/Z.\n"
    assert switch.running.interfaces["Ethernet1/1"].mtu == 9216


async def test_editing_help_and_completion(client: asyncssh.SSHClientConnection) -> None:
    async with terminal(client) as process:
        process.stdin.write("shoq\x7fw hostn\t\r")
        assert "show hostname \r\nswitch \r\n" in (await expect(process, "switch# ")).replace("q\b \b", "")
        process.stdin.write("show ver?")
        assert "  version" in await expect(process, "switch# show ver")
        process.stdin.write("\x03conf t\rint e1/1\r")
        await expect(process, "switch(config-if)# ")
        process.stdin.write("\x1a")
        await expect(process, "switch# ")
        process.stdin.write("sh foo\r")
        assert "\r\n            ^\r\n% Invalid command at '^' marker.\r\n" in await expect(
            process, "marker.\r\nswitch# "
        )


async def test_a_question_waits_for_an_answer(client: asyncssh.SSHClientConnection, switch: Switch) -> None:
    switch.save()
    async with terminal(client) as process:
        process.stdin.write("write erase\r")
        await expect(process, "(y/n)  [n] ")
        process.stdin.write("y\r")
        await expect(process, "switch# ")
    assert switch.startup is None


async def test_reload_drops_every_connection(client: asyncssh.SSHClientConnection, switch: Switch) -> None:
    switch.save()
    apply_lines(switch, ["hostname unsaved"])
    async with client.create_process() as process:
        await expect(process, "unsaved# ")
        process.stdin.write("reload\ny\n")
        await asyncio.wait_for(client.wait_closed(), PATIENCE)
    assert switch.running.hostname == "switch"


async def test_a_wrong_password_is_refused(emulator: Emulator) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        await log_in(emulator, "wrong")


async def test_an_idle_session_ends(switch: Switch, emulate: StartEmulator) -> None:
    async with (
        emulate(switch, idle_seconds=0.05) as emulator,
        await log_in(emulator, PASSWORD) as connection,
        connection.create_process() as process,
    ):
        await asyncio.wait_for(process.wait(), PATIENCE)


async def test_a_line_without_end_does_no_harm(client: asyncssh.SSHClientConnection) -> None:
    async with terminal(client) as process:
        process.stdin.write("x" * 100_000 + "\r")
        await expect(process, "% Command line too long\r\nswitch# ")


async def test_many_sessions_at_once(client: asyncssh.SSHClientConnection) -> None:
    results = await asyncio.gather(*(client.run("show queuing interface e1/1") for _ in range(8)))
    assert len({str(result.stdout) for result in results}) == 1


def test_the_host_key_is_private(tmp_path: Path) -> None:
    path = ensure_host_key(tmp_path / "keys" / "host")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    assert ensure_host_key(path).read_bytes() == content
