"""A batch of commands in one shell, on this machine: the same script runs over ssh."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import time
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railbed.errors import Unreachable
from railbed.model.reading import Output
from railbed.transport import batch
from railbed.transport.base import Command
from railbed.transport.local import LocalTransport


async def run(*commands: Command) -> list[Output]:
    async with aclosing(LocalTransport("here").run(commands)) as outputs:
        return [output async for output in outputs]


async def test_outputs_come_apart_in_order() -> None:
    first, second, third = await run(
        Command(key="a", script="echo one; echo warn >&2; exit 3"),
        Command(key="b", script="printf 'no newline'"),
        Command(key="c", script="printf '\\n\\nblank lines kept\\n\\n'"),
    )
    assert (first.stdout, first.stderr, first.exit) == (b"one\n", b"warn\n", 3)
    assert (second.stdout, second.exit) == (b"no newline", 0)
    assert third.stdout == b"\n\nblank lines kept\n\n"
    assert first.sent <= first.received <= second.received


async def test_a_command_that_hangs_is_ended_and_the_rest_goes_on() -> None:
    hung, fine = await run(
        Command(key="hung", script="echo begun; sleep 60 | cat", timeout=1.5), Command(key="fine", script="echo fine")
    )
    assert hung.exit is None
    assert hung.failure == "did not finish within 1.5 s"
    assert hung.stdout == b"begun\n"
    assert fine.stdout == b"fine\n"


async def test_a_command_that_will_not_end_costs_only_its_shell() -> None:
    hung, fine = await run(
        Command(key="hung", script="trap '' TERM INT HUP; echo begun; sleep 30; sleep 30", timeout=1.5),
        Command(key="fine", script="echo fine"),
    )
    assert (hung.failure, hung.stdout) == ("did not finish within 1.5 s", b"begun\n")
    assert (fine.key, fine.stdout) == ("fine", b"fine\n")


async def test_what_a_script_does_to_its_shell_stays_with_it() -> None:
    script = "cd /; x=1; set -eu; exec 2>/dev/null; PATH=; readonly LC_ALL; exit 4"
    left, broken, after = await run(
        Command(key="a", script=script),
        Command(key="b", script="if then ( oops"),
        Command(key="c", script="echo ${x-unset} $PWD; false; echo still here"),
    )
    assert left.exit == 4
    assert broken.exit not in (0, None)
    assert after.stdout.decode() == f"unset {Path.cwd()}\nstill here\n"


@pytest.mark.parametrize("printing", ["yes", "yes >&2", "trap '' TERM; while :; do echo xxxxxxxxxxxxxxxx; done"])
async def test_a_command_that_never_stops_printing_is_cut_off(printing: str) -> None:
    big, after = await run(
        Command(key="big", script=printing, timeout=500),
        Command(key="after", script="echo after"),
    )
    assert (big.exit, big.truncated, big.failure) == (None, True, "printed more than 4 MiB and was cut off")
    assert max(len(big.stdout), len(big.stderr)) == batch.EVIDENCE_BYTES
    assert not after.truncated
    assert after.stdout == b"after\n"


async def test_three_megabytes_are_kept_on_both_streams() -> None:
    (big,) = await run(Command(key="big", script="head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"))
    assert (len(big.stdout), len(big.stderr), big.truncated, big.exit) == (3_000_000, 3_000_000, False, 0)


async def test_a_login_that_never_stops_printing_is_unreachable() -> None:
    async def prints_before(command: str) -> list[Output]:
        here = LocalTransport("here")
        outputs = batch.run_batch(
            "here", lambda line: here.open(f"yes | cat; {line}"), [Command(key="a", script=command)]
        )
        async with aclosing(outputs):
            return [output async for output in outputs]

    with pytest.raises(Unreachable, match="its login printed more than 4 MiB before a command could start"):
        await prints_before("echo")


async def test_bytes_that_are_no_text() -> None:
    (output,) = await run(Command(key="bytes", script="printf '\\377\\000\\376'"))
    assert output.stdout == b"\xff\x00\xfe"
    assert output.text == "\ufffd\x00\ufffd"


async def test_a_missing_tool() -> None:
    (output,) = await run(Command(key="x", script="no-such-tool --version", tool="no-such-tool"))
    assert output.exit == 127
    assert output.stdout == b""


async def test_a_command_cannot_read_the_script() -> None:
    greedy, after = await run(Command(key="greedy", script="cat"), Command(key="after", script="echo after"))
    assert (greedy.stdout, greedy.exit, after.stdout) == (b"", 0, b"after\n")


async def test_when_we_are_gone_the_shell_ends_with_all_it_started(tmp_path: Path) -> None:
    """As after a lost connection: no signal, the input just ends. What ignores TERM is killed a second later."""
    stubborn = f"trap '' TERM HUP; echo $$ > {tmp_path}/pid; sleep 300"
    script = batch.render_script([Command(key="x", script=f"sh -c {shlex.quote(stubborn)}")], "MARK").encode()
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", batch.shell_command(script), stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    process.stdin.write(script)
    await process.stdin.drain()
    pid_file = tmp_path / "pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):
        await asyncio.sleep(0.01)
    process.stdin.close()
    await process.wait()
    deadline = time.monotonic() + 10
    while _alive(int(pid_file.read_text())) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not _alive(int(pid_file.read_text()))


async def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    task = asyncio.create_task(
        run(Command(key="x", script=f"sh -c 'echo $$ > {pid_file}; exec sleep 300' | cat", timeout=300))
    )
    while not (pid_file.exists() and pid_file.read_text().strip()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    deadline = time.monotonic() + 10
    while _alive(int(pid_file.read_text())) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not _alive(int(pid_file.read_text()))


async def test_cancelled_while_its_shell_ends_it_is_seen_to_its_end() -> None:
    """Ctrl-C, or a failure elsewhere, may come when the answer is there already and only the shell is still ending."""
    shells: list[int] = []

    async def ask() -> None:
        async with LocalTransport("here").open("trap '' TERM; echo $$; sleep 60 & wait; wait") as shell:
            shells.append(int(await shell.read(1)))

    task = asyncio.create_task(ask())
    while not shells:
        await asyncio.sleep(0.01)
    for _ in range(3):
        await asyncio.sleep(0.1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{shells[0]}").exists()  # not even as a zombie


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_as_root_asks_sudo_only_where_it_must(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\necho "sudo $1"\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    script = batch.render_script([Command(key="x", script="id -u", as_root=True)], "MARK").encode()
    process = subprocess.Popen(
        ["sh", "-c", batch.shell_command(script)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(script)
    process.stdin.flush()
    printed = process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    process.wait()
    assert (b"\n0\n" if os.geteuid() == 0 else f"\nsudo -n\n{os.geteuid()}\n".encode()) in printed


PASSWORD = "it's-a secret"  # noqa: S105  (of a sudo that exists for one test)
SUDO = """#!/bin/sh
read -r password
[ "$password" = "it's-a secret" ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
[ "$4" = -v ] && exit 0
shift 3
exec "$@"
"""


@pytest.fixture
def not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An account that is not root, on a machine whose sudo asks for a password."""
    for name, text in {"sudo": SUDO, "id": "#!/bin/sh\necho 1000\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


async def as_root(script: str, password: str) -> Output:
    command = Command(key="x", script=script, as_root=True, timeout=60)
    async with aclosing(LocalTransport("here", password).run([command])) as outputs:
        return await anext(outputs)


@pytest.mark.parametrize("password", [PASSWORD, ""], ids=["asked", "not asked"])
async def test_sudo_gets_its_password_and_the_script_and_nobody_else_sees_them(not_root: Path, password: str) -> None:
    if not password:
        (not_root / "sudo").write_text('#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n')
    content = "what is written to a file"
    waiting = f"touch {not_root}/begun; until [ -e {not_root}/end ]; do sleep 0.1; done"
    task = asyncio.create_task(as_root(f"printf %s '{content}'; {waiting}", password))
    async with asyncio.timeout(60):
        while not (not_root / "begun").exists():
            await asyncio.sleep(0.05)
    for file in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
        with suppress(OSError):
            shown = file.read_bytes()
            assert PASSWORD.encode() not in shown, file
            assert content.encode() not in shown, file
    (not_root / "end").touch()
    output = await task
    assert (output.exit, output.stdout, output.stderr) == (0, content.encode(), b"")
    assert PASSWORD not in str(output)


@pytest.mark.usefixtures("not_root")
async def test_a_wrong_password_for_sudo_is_an_answer_at_once() -> None:
    output = await as_root("echo out", "wrong")
    assert (output.exit, output.stdout, output.complaint) == (1, b"", "sudo: 1 incorrect password attempt")


async def test_a_password_that_sudo_does_not_ask_for_is_no_command(not_root: Path) -> None:
    """As on a machine that lets the account use sudo without one: it stays in the input."""
    (not_root / "sudo").write_text('#!/bin/sh\n[ "$4" = -v ] && exit 0\nshift 3\nexec "$@"\n')
    output = await as_root("echo out", f"touch {not_root}/executed")
    assert (output.exit, output.stdout, output.stderr) == (0, b"out\n", b"")
    assert not (not_root / "executed").exists()


async def test_what_runs_through_sudo_ends_with_its_shell(not_root: Path) -> None:
    """The lifetime goes through the same pipe as the password."""
    pid_file = not_root / "pid"
    task = asyncio.create_task(as_root(f"echo $$ >{pid_file}; sleep 60", PASSWORD))
    async with asyncio.timeout(30):
        while not (pid_file.exists() and pid_file.read_text().strip()):
            await asyncio.sleep(0.05)
        task.cancel()
        while _alive(int(pid_file.read_text())):
            await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task


class ScriptedShell:
    """Gives prepared bytes in prepared pieces, as a network does."""

    def __init__(self, stdout: bytes, stderr: bytes, piece: int) -> None:
        self._left = {1: stdout, 2: stderr}
        self._piece = piece

    async def write(self, script: bytes) -> None:
        del script

    async def read(self, stream: int) -> bytes:
        data, self._left[stream] = self._left[stream][: self._piece], self._left[stream][self._piece :]
        return data


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=4), st.integers(1, 30))
def test_frames_survive_any_bytes_in_any_pieces(contents: list[bytes], piece: int) -> None:
    stdout = b"".join(content + b"\nMARK 0\n" for content in contents)

    async def frames() -> list[bytes]:
        reader = batch._Frames(ScriptedShell(stdout, b"", piece), 1, "MARK")
        frames_read = []
        for _ in contents:
            frame = await reader.next()
            assert frame is not None
            frames_read.append(frame.data)
        return frames_read

    assert asyncio.run(frames()) == contents
