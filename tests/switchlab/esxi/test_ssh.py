"""Logins and sessions over real SSH, with asyncssh and OpenSSH as clients."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import asyncssh
import pytest

import switchlab
from switchlab import SwitchFailed
from switchlab.esxi.__main__ import main
from tests.switchlab.esxi.conftest import StartHost
from tests.switchlab.esxi.support import PASSWORD, SITE, host

PATIENCE = 30.0


class Interactive(asyncssh.SSHClient):
    """A client that answers prompts, and remembers them."""

    def __init__(self, password: str, prompts: list[tuple[str, bool]]) -> None:
        self._password = password
        self._prompts = prompts

    def kbdint_auth_requested(self) -> str:
        return ""

    def kbdint_challenge_received(
        self, _name: str, _instructions: str, _lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str]:
        self._prompts += prompts
        return [self._password] * len(prompts)


def connect(port: int, **options: object) -> object:
    settings = {"username": "root", "password": PASSWORD, "client_keys": None, **options}
    return asyncssh.connect("127.0.0.1", port, known_hosts=None, config=None, **settings)


async def execute(port: int, command: str, **options: object) -> asyncssh.SSHCompletedProcess:
    async with connect(port, **options) as client:  # type: ignore[attr-defined]
        result: asyncssh.SSHCompletedProcess = await client.run(command)
        return result


async def finish(port: int, command: str) -> None:
    """Run a command that has to end with a status."""
    if (await execute(port, command)).exit_status is None:
        raise ConnectionError("the connection was cut")


async def test_a_login_is_keyboard_interactive(emulate: StartHost) -> None:
    async with emulate(host()) as emulator:
        prompts: list[tuple[str, bool]] = []
        connection, _ = await asyncssh.create_connection(
            lambda: Interactive(PASSWORD, prompts),
            "127.0.0.1",
            emulator.ssh_port,
            username="root",
            known_hosts=None,
            client_keys=None,
            config=None,
        )
        async with connection:
            result = await connection.run("hostname")
        assert (result.stdout, prompts) == ("esx1\n", [("Password: ", False)])


@pytest.mark.parametrize(
    "options",
    [{"preferred_auth": "password"}, {"password": "wrong"}, {"username": "admin"}],
    ids=["plain password", "wrong password", "another user"],
)
async def test_other_logins_are_refused(emulate: StartHost, options: dict[str, object]) -> None:
    async with emulate(host()) as emulator:
        with pytest.raises(asyncssh.PermissionDenied):
            await execute(emulator.ssh_port, "hostname", **options)


async def test_root_has_a_key_file_and_lockdown_refuses_everybody(emulate: StartHost, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "keys").write_bytes(key.export_public_key())
    machine = host()
    async with emulate(machine, authorized_keys=tmp_path / "keys") as emulator:
        with_key = {"password": None, "client_keys": [key]}
        assert (await execute(emulator.ssh_port, "hostname", **with_key)).stdout == "esx1\n"
        with pytest.raises(asyncssh.PermissionDenied):
            await execute(emulator.ssh_port, "hostname", **with_key, username="admin")
        machine.lockdown = "on"
        for options in (with_key, {}):
            with pytest.raises(asyncssh.PermissionDenied):
                await execute(emulator.ssh_port, "hostname", **options)


async def test_a_command_returns_its_streams_and_status(emulate: StartHost) -> None:
    async with emulate(host()) as emulator:
        result = await execute(emulator.ssh_port, "echo a; nosuch")
    assert (result.stdout, result.stderr, result.exit_status) == ("a\n", "-sh: nosuch: not found\n", 127)


async def test_a_shell_has_a_prompt_and_ends(emulate: StartHost) -> None:
    async with (
        emulate(host()) as emulator,
        connect(emulator.ssh_port) as client,  # type: ignore[attr-defined]
        client.create_process(term_type="xterm") as process,
    ):
        process.stdin.write("hostname\nexit 3\n")
        output = await asyncio.wait_for(process.stdout.read(), PATIENCE)
        await asyncio.wait_for(process.wait_closed(), PATIENCE)
    assert "[root@esx1:~] " in output
    assert "\nesx1\r\n" in output
    assert process.exit_status == 3


async def test_a_reboot_cuts_the_connection(emulate: StartHost) -> None:
    machine = host()
    async with emulate(machine) as emulator:
        with pytest.raises((asyncssh.Error, OSError)):
            await finish(emulator.ssh_port, "reboot; echo a")
        assert machine.boots == 2
        assert (await execute(emulator.ssh_port, "hostname")).stdout == "esx1\n"
        machine.unreachable_until = machine.clock() + 60
        with pytest.raises((asyncssh.Error, OSError)):
            await execute(emulator.ssh_port, "hostname")


async def test_a_held_command_of_a_connection_that_closed_never_runs(emulate: StartHost) -> None:
    machine = host()
    command = "esxcli system module parameters set -m nmlx5_core -p ecn=1"
    machine.faults.hold("esxcli system module parameters set")
    async with emulate(machine) as emulator:
        task = asyncio.create_task(execute(emulator.ssh_port, command))
        async with asyncio.timeout(PATIENCE):
            while machine.faults.waiting != [command]:
                await asyncio.sleep(0.01)
        machine.drop_connections()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            while machine.faults.waiting:
                await asyncio.sleep(0.01)
        machine.faults.release()
        assert (await execute(emulator.ssh_port, "hostname")).stdout == "esx1\n"
    assert machine.stored["nmlx5_core"] == "max_vfs=4,4"


async def test_a_cut_after_a_command(emulate: StartHost) -> None:
    machine = host()
    machine.faults.commands_until_cut = 1
    async with emulate(machine) as emulator:
        with pytest.raises((asyncssh.Error, OSError)):
            await finish(emulator.ssh_port, "esxcfg-module -s ecn=1 nmlx5_core; esxcfg-module -s '' nmlx5_core")
    assert machine.stored["nmlx5_core"] == "ecn=1", "it ran, and the second did not"


def test_as_a_process() -> None:
    with switchlab.start("esxi", config=json.dumps(SITE), password=PASSWORD, hostname="esx1", release="9.0") as machine:
        result = asyncio.run(execute(machine.ssh_port, "esxcli system version get"))
        assert "Version: 9.0.0" in str(result.stdout)
        machine.control.request("reboot")
        state = machine.control.request("state")
        assert isinstance(state, dict)
        assert state["boots"] == 2
        with pytest.raises(switchlab.ControlError, match="the host refused link: the host has no nic x"):
            machine.control.request("link", nic="x", up=True)
        arguments = Path(f"/proc/{machine._process.pid}/cmdline").read_bytes()
        assert PASSWORD.encode() not in arguments


def test_a_host_that_does_not_start_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SwitchFailed, match="the host did not start: the description is not JSON"):
        switchlab.start("esxi", config="{", password=PASSWORD)
    monkeypatch.setitem(os.environ, "ESXI_PASSWORD", PASSWORD)
    assert main(["--hostname", "a b"]) == 2
    assert main(["--config", "/nonexistent/file"]) == 3
    monkeypatch.delenv("ESXI_PASSWORD")
    assert main([]) == 2
    assert "nobody could log in" in capsys.readouterr().err
