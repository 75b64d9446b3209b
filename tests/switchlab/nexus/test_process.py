"""The emulator as a separate process, and its control socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from switchlab.nexus.__main__ import main
from switchlab.nexus.model.switch import Switch
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import LOSSLESS, PASSWORD

PATIENCE = 60.0


async def control(path: Path, *requests: object) -> list[Any]:
    """Send requests to the control socket; return the answers."""
    reader, writer = await asyncio.open_unix_connection(path)
    answers = []
    for request in requests:
        writer.write((request if isinstance(request, str) else json.dumps(request)).encode() + b"\n")
        answers.append(json.loads(await asyncio.wait_for(reader.readline(), PATIENCE)))
    writer.close()
    return answers


async def test_control_socket(lossless: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(lossless):
        path = tmp_path / "control"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answers = await control(
            path,
            {"do": "link", "port": "e1/3", "up": True, "mbps": 10_000},
            {"do": "carry", "port_in": "e1/1", "port_out": "e1/2", "dscp": 26, "bytes": 8192},
            {"do": "add", "port": "Ethernet1/2", "counter": "drop_packets", "amount": 3, "group": 3},
            {"do": "counters", "port": "e1/2"},
        )
        assert all(answer["ok"] for answer in answers)
        assert answers[1]["result"] == {"group": 3, "lossless": True, "sent": 2, "marked": 0, "dropped": 0, "pauses": 0}
        assert answers[3]["result"]["queues"]["3"]["drop_packets"] == 3
        assert lossless.links["Ethernet1/3"].mbps == 10_000


async def test_control_errors(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch):
        answers = await control(
            tmp_path / "control",
            "nonsense",
            [],
            {"do": "unknown"},
            {"do": "add", "port": "e9/9", "counter": "fcs"},
            {"do": "add", "port": "e1/1", "counter": "fcs", "amount": "many"},
            {"do": "carry", "port_in": "e1/1", "port_out": "e1/2", "dscp": 99, "bytes": 1},
            {"do": "neighbour", "port": "e1/1", "chassis_id": 5, "port_id": "a", "system_name": "b"},
            {"do": "mac", "port": "e1/1", "vlan": True, "address": "0c42.a1aa.0001"},
            {"do": "mac", "port": "e1/1", "vlan": 1, "address": "0c42.a1aa.0001", "age": 3},
            {"do": "carry", "port_in": "e1/1", "port_out": "e1/2", "dscp": 26, "bytes": 1, "ecn_capable": 1},
            {"do": "link", "port": "e1/1", "up": "yes"},
            {"do": "ping"},
        )
        assert [answer["ok"] for answer in answers] == [False] * 11 + [True]
        assert [answer["error"] for answer in answers[7:11]] == [
            "vlan must be a whole number",
            "unknown field age",
            "ecn_capable must be true or false",
            "up must be true or false",
        ]
        assert (switch.neighbours, switch.macs) == ([], [])
        assert "no port Ethernet9/9" in answers[3]["error"]
        assert "dscp must be a number from 0 to 63" in answers[5]["error"]


async def test_injected_failures(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch) as emulator:
        path, port = tmp_path / "control", emulator.ssh_port
        await control(path, {"do": "refuse", "command": "checkpoint", "error": "ERROR: no space left"})
        assert await ssh(port, "checkpoint a") == "ERROR: no space left\n"
        await control(path, {"do": "refuse", "command": "checkpoint"}, {"do": "cut", "after": 2})
        with pytest.raises((asyncssh.Error, OSError)):
            await ssh(port, "checkpoint a ; checkpoint b ; checkpoint c")
        assert list(switch.checkpoints) == ["a", "b"]
        assert await ssh(port, "show hostname") == "switch \n"


async def until_held(path: Path, command: str) -> None:
    """Wait until a command is held."""
    async with asyncio.timeout(PATIENCE):
        while (await control(path, {"do": "held"}))[0]["result"] != [command]:
            await asyncio.sleep(0.01)


async def test_a_held_command_runs_once_it_is_released(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch) as emulator:
        path, port = tmp_path / "control", emulator.ssh_port
        await control(path, {"do": "hold", "command": "checkpoint b"})
        task = asyncio.create_task(ssh(port, "checkpoint a ; checkpoint  b ; checkpoint c"))
        await until_held(path, "checkpoint b")
        assert list(switch.checkpoints) == ["a"]
        await control(path, {"do": "release"})
        await asyncio.wait_for(task, PATIENCE)
        assert list(switch.checkpoints) == ["a", "b", "c"]


async def test_a_held_command_of_a_connection_that_closed_never_runs(
    switch: Switch, emulate: StartEmulator, tmp_path: Path
) -> None:
    async with emulate(switch) as emulator:
        path = tmp_path / "control"
        await control(path, {"do": "hold", "command": "checkpoint b"})
        task = asyncio.create_task(ssh(emulator.ssh_port, "checkpoint a ; checkpoint b"))
        await until_held(path, "checkpoint b")
        switch.drop_connections()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            while switch.faults.waiting:
                await asyncio.sleep(0.01)
        await control(path, {"do": "release"})
        assert await ssh(emulator.ssh_port, "show hostname") == "switch \n"
        assert list(switch.checkpoints) == ["a"]


async def test_commands_are_accepted_again(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch) as emulator:
        refusal = {"do": "refuse", "command": "checkpoint", "error": "ERROR: no space left"}
        await control(tmp_path / "control", refusal, {"do": "accept"})
        await ssh(emulator.ssh_port, "checkpoint a")
        assert list(switch.checkpoints) == ["a"]


async def test_the_management_port_carries_ssh(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch) as emulator:
        path, port = tmp_path / "control", emulator.ssh_port
        async with asyncssh.connect("127.0.0.1", port, username="admin", password=PASSWORD, known_hosts=None) as client:
            await control(path, {"do": "link", "port": "mgmt0", "up": False})
            await asyncio.wait_for(client.wait_closed(), PATIENCE)
        with pytest.raises((asyncssh.Error, OSError)):
            await ssh(port, "show hostname")
        await control(path, {"do": "link", "port": "mgmt0", "up": True})
        assert await ssh(port, "show hostname") == "switch \n"


async def test_shutting_the_management_port_ends_the_session(switch: Switch, emulate: StartEmulator) -> None:
    async with emulate(switch) as emulator:
        with pytest.raises((asyncssh.Error, OSError)):
            await ssh(emulator.ssh_port, "configure terminal ; interface mgmt0 ; shutdown")
        assert switch.running.interfaces["mgmt0"].shut
        with pytest.raises((asyncssh.Error, OSError)):
            await ssh(emulator.ssh_port, "show hostname")


async def test_unplugging_a_port(switch: Switch, emulate: StartEmulator, tmp_path: Path) -> None:
    async with emulate(switch):
        await control(
            tmp_path / "control",
            {"do": "neighbour", "port": "e1/1", "chassis_id": "a", "port_id": "b", "system_name": "node1"},
            {"do": "mac", "port": "e1/1", "vlan": 1, "address": "0c42.a1aa.0001"},
        )
        assert switch.links["Ethernet1/1"].up
        await control(tmp_path / "control", {"do": "disconnect", "port": "e1/1"})
        assert (switch.links["Ethernet1/1"].up, switch.neighbours, switch.macs) == (False, [], [])


@asynccontextmanager
async def process(folder: Path, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Run the emulator as a program; yield it with its SSH port."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "switchlab.nexus", "--port", "0", "--state", str(folder / "state"), *arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NEXUS_PASSWORD": PASSWORD},
    )
    try:
        assert child.stderr is not None
        line = ""
        while "ssh=" not in line:
            line = (await asyncio.wait_for(child.stderr.readline(), PATIENCE)).decode()
            assert line, "the emulator ended"
        yield child, int(line.split("ssh=")[1].split()[0])
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def ssh(port: int, command: str) -> str:
    options = asyncssh.SSHClientConnectionOptions(
        username="admin", password=PASSWORD, known_hosts=None, client_keys=None, config=None
    )
    async with await asyncssh.connect("127.0.0.1", port, options=options) as connection:
        result = await connection.run(command)
    if result.exit_status != 0:
        raise ConnectionError("the connection was cut")
    return str(result.stdout)


async def test_a_process_keeps_its_state_and_ends_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "start.cfg").write_text(LOSSLESS)
    arguments = ("--config", str(tmp_path / "start.cfg"), "--hostname", "leaf1", "--control", str(tmp_path / "socket"))
    async with process(tmp_path, *arguments) as (child, port):
        assert "mtu 9216" in await ssh(port, "show running-config interface e1/1 ; checkpoint kept ; copy run start")
        assert (await control(tmp_path / "socket", {"do": "ping"}))[0] == {"ok": True, "result": "pong"}
        assert child.pid
        assert PASSWORD.encode() not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
        child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), PATIENCE) == 0
    async with process(tmp_path) as (_, port):
        output = await ssh(port, "show hostname ; show running-config interface e1/1 ; show checkpoint summary")
        assert output.startswith("leaf1")
        assert "mtu 9216" in output
        assert "1) kept:" in output


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEXUS_PASSWORD", raising=False)
    assert main([]) == 2
    assert "NEXUS_PASSWORD" in capsys.readouterr().err
    monkeypatch.setenv("NEXUS_PASSWORD", PASSWORD)
    assert main(["--hostname", "a b"]) == 2
    assert main(["--config", "/nonexistent/file"]) == 3


async def test_the_initial_configuration_is_saved(tmp_path: Path) -> None:
    (tmp_path / "start.cfg").write_text(LOSSLESS)
    async with process(tmp_path, "--config", str(tmp_path / "start.cfg"), "--hostname", "leaf1") as (_, port):
        running, startup = [
            [line for line in (await ssh(port, f"show {which}-config")).splitlines() if not line.startswith("!")]
            for which in ("running", "startup")
        ]
    assert startup == running
    assert "hostname leaf1" in startup
