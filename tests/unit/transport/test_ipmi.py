"""IPMI through ipmitool: what a program in its place may do, and what is refused before it starts."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from railbed.errors import DeviceError, LoginRefused, ToolMissing, Unreachable
from railbed.model.cluster import Cluster
from railbed.model.reading import Output
from railbed.transport.base import Command, targets_of
from railbed.transport.bmc import ipmi
from railbed.transport.connect import live_connector

STATUS = Command(key="bmc_power", script="chassis status", timeout=30.0)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMC_PASSWORD", "secret")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ipmitool whose Python code a test writes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "ipmitool"
    path.touch(mode=0o755)
    return path


def write(tool: Path, code: str) -> None:
    tool.write_text(f"#!{sys.executable}\nimport sys, time\n{code}\n")


async def run(*commands: Command, changing: bool = False, **own: Any) -> list[Output]:
    bmc = {"host": "127.0.0.1", "access": "ipmi", "user": "u", "password": {"env": "BMC_PASSWORD"}, **own}
    cluster = Cluster.model_validate({"name": "site", "nodes": {"n1": {"host": "local", "bmc": bmc}}})
    async with (
        live_connector() as connect,
        connect(targets_of(cluster, changing=changing)[-1]) as connection,
        aclosing(connection.run(commands)) as outputs,
    ):
        return [output async for output in outputs]


async def test_a_tool_that_never_stops_printing_or_never_ends_is_ended(tool: Path) -> None:
    write(tool, "while True: print('x' * 60000)")
    [flood] = await run(STATUS)
    assert flood.truncated
    write(tool, "print('System Power : on', flush=True); time.sleep(600)")
    [late, again] = await run(
        Command(key="a", script="chassis status", timeout=2.0), Command(key="b", script="sdr elist", timeout=2.0)
    )
    assert (late.text, late.ran_late, again.ran_late) == ("System Power : on\n", True, True)


async def test_what_ipmitool_tried_beside_the_command_is_no_complaint(tool: Path) -> None:
    lines = ["Get HPM.x Capabilities request failed, compcode = d4", "No SDR"]
    write(tool, f"print(*{lines}, sep=chr(10), file=sys.stderr); sys.exit(1)")
    [output] = await run(STATUS)
    assert (output.exit, output.complaint) == (1, "No SDR")


@pytest.mark.parametrize(
    ("printed", "kind", "reason"),
    [
        ("> RAKP 2 HMAC is invalid", LoginRefused, "refused the login of u"),
        ("RAKP 2 message indicates an error : unauthorized name", LoginRefused, "(unauthorized name)"),
        ("Error in open session response message : invalid authentication algorithm", Unreachable, "cipher suite"),
        ("", Unreachable, "no IPMI session with 127.0.0.1 port 623"),
    ],
)
async def test_why_there_is_no_session(tool: Path, printed: str, kind: type[DeviceError], reason: str) -> None:
    code = f"if '-v' in sys.argv: print({printed!r}, file=sys.stderr)\n"
    write(tool, f"{code}print('Error: Unable to establish IPMI v2 / RMCP+ session', file=sys.stderr); sys.exit(1)")
    with pytest.raises(kind) as raised:
        await run(STATUS)
    assert reason in raised.value.message
    assert "secret" not in raised.value.message


async def test_only_reading_words_and_requested_power_actions_reach_the_tool(tool: Path) -> None:
    write(tool, "print(*sys.argv[1:])")
    for script in ("chassis power off", "raw 0 0", "chassis status; sel clear", "user list"):
        with pytest.raises(DeviceError, match="is not asked for"):
            await run(Command(key="x", script=script), changing=True)
    with pytest.raises(DeviceError, match="is only read here"):
        await run(Command(key="x", script="power cycle"))
    [output] = await run(Command(key="x", script="power cycle"), changing=True, cipher_suite=17)
    words = output.text.split()
    assert words[-3:] == ["chassis", "power", "cycle"]
    assert words[words.index("-L") + 1] == "OPERATOR"
    assert words[words.index("-C") + 1] == "17"


async def test_logins_that_cannot_work_are_refused_before_anything_is_sent(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tool, "raise SystemExit('must not run')")
    with pytest.raises(LoginRefused, match="no room for this login"):
        await run(STATUS, user="u" * 17)
    monkeypatch.setenv("BMC_PASSWORD", "p" * 21)
    with pytest.raises(LoginRefused, match="no room for this login"):
        await run(STATUS)
    with pytest.raises(Unreachable, match="cannot go through a jump host"):
        await run(STATUS, jump="gate")
    with pytest.raises(LoginRefused, match="names no `user:`"):
        await run(STATUS, user=None)
    with pytest.raises(LoginRefused, match="says nowhere to find one"):
        await run(STATUS, password=None)


async def test_without_ipmitool_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipmi, "PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing) as raised:
        await run(STATUS)
    assert "install the package ipmitool here" in raised.value.hint
