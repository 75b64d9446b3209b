"""Real OpenSSH servers on loopback: logins, host keys, jump hosts, and machines that die, freeze or print too much."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import asyncssh
import pytest

from railbed.errors import DeviceError, HostKeyUnknown, LoginRefused, Unreachable
from railbed.fleet import DeviceAnswer, Fleet
from railbed.model.cluster import Login, Secret
from railbed.transport.base import Command, Target
from railbed.transport.connect import live_connector
from railbed.transport.ssh.connection import PROGRAMS
from tests.support.benchsite import processes_with
from tests.support.sshd import SSHD, Server, Servers, descendants, running_servers

pytestmark = [pytest.mark.ssh, pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")]
SERVER_ADDRESS = "$(echo $SSH_CONNECTION | cut -d' ' -f3)"
HELLO = [Command(key="hello", script="echo hello")]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(3, tmp_path, options=["LogLevel VERBOSE"]) as servers:
        yield servers


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(1, tmp_path, options=["LogLevel VERBOSE"]) as servers:
        yield servers


def login(servers: Servers, server: Server, **changes: object) -> Login:
    fields = {
        "user": servers.user,
        "port": server.port,
        "key": str(servers.key),
        "known_hosts": str(servers.known_hosts),
    }
    return Login.model_validate({**fields, **changes})


def targets(servers: Servers) -> list[Target]:
    return [
        Target(name=f"n{index}", host=server.address, login=login(servers, server))
        for index, server in enumerate(servers.servers, 1)
    ]


async def ask(targets: list[Target], commands: list[Command], timeout: float = 20.0) -> dict[str, DeviceAnswer]:
    async with live_connector() as connect, Fleet(targets, connect, timeout=timeout) as fleet:
        return await collect(fleet, commands)


async def collect(fleet: Fleet, commands: list[Command]) -> dict[str, DeviceAnswer]:
    async with aclosing(fleet.run({target.name: commands for target in fleet.targets})) as answers:
        return {answer.device: answer async for answer in answers}


async def log_in(target: Target) -> None:
    async with live_connector() as connect, connect(target):
        pass


async def test_every_machine_answers_over_one_connection(three: Servers) -> None:
    async with live_connector() as connect, Fleet(targets(three), connect) as fleet:
        for _ in range(3):
            answers = await collect(fleet, HELLO * 5)
            assert sorted(answers) == ["n1", "n2", "n3"]
            assert all(output.stdout == b"hello\n" for answer in answers.values() for output in answer.outputs)
    for server in three.servers:
        log = (three.folder / f"{server.address}.log").read_text()
        assert log.count("Accepted publickey") == 1


@pytest.mark.soak
async def test_a_connection_outlives_half_a_minute_without_an_answer(single: Servers) -> None:
    """An emulated processor that is busy stores ten megabytes for a minute, and answers nothing in between."""
    (target,) = targets(single)
    async with live_connector() as connect, connect(target) as transport, transport.open("cat") as program:
        await program.write(b"before ")
        assert await program.read(1) == b"before "
        single.servers[0].freeze()
        await program.write(b"after")
        await asyncio.sleep(35)
        single.servers[0].thaw()
        assert await program.read(1) == b"after"


async def test_a_program_that_is_not_awaited_is_ended_and_takes_no_room(single: Servers, tmp_path: Path) -> None:
    """A server allows ten programs per connection; one that was not waited for would count, and run, until it ends."""
    (target,) = targets(single)
    async with live_connector() as connect, connect(target) as transport:

        async def start(command: str) -> None:
            async with transport.open(command) as program:
                await program.read(1)

        for number in range(PROGRAMS + 1):
            begun = tmp_path / str(number)
            starting = asyncio.create_task(start(f"touch {begun}; exec sh -c 'cat; : {begun}'"))
            await asyncio.sleep(0)  # asked for, not answered
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            assert starting.cancelled()
            deadline = time.monotonic() + 60
            while not begun.exists() or processes_with(f"cat; : {begun}"):  # it starts all the same, and its input ends
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
        await start("true")
    assert (single.folder / f"{target.host}.log").read_text().count("Accepted publickey") == 1


async def test_a_dead_machine_is_a_value_and_nothing_else_is_lost(three: Servers) -> None:
    three.servers[1].kill()
    answers = await ask(targets(three), HELLO)
    assert answers["n1"].failure is answers["n3"].failure is None
    failure = answers["n2"].failure
    assert failure is not None
    assert not failure.connected
    assert "cannot be reached" in failure.reason


async def test_a_machine_that_dies_half_way(three: Servers, tmp_path: Path) -> None:
    begun = tmp_path / three.servers[1].address
    commands = [*HELLO, Command(key="dies", script=f"touch {tmp_path}/{SERVER_ADDRESS}; sleep 2")]
    task = asyncio.create_task(ask(targets(three), commands))
    while not begun.exists():
        await asyncio.sleep(0.01)
    three.servers[1].kill()
    answers = await task
    failure = answers["n2"].failure
    assert failure is not None
    assert failure.connected
    assert failure.reason.startswith("stopped answering after 1 of 2 commands")
    assert [output.key for output in answers["n2"].outputs] == ["hello"]
    assert len(answers["n1"].outputs) == len(answers["n3"].outputs) == 2


async def test_a_machine_that_freezes_costs_its_own_timeout(three: Servers, tmp_path: Path) -> None:
    begun = tmp_path / three.servers[2].address
    commands = [*HELLO, Command(key="freezes", script=f"touch {tmp_path}/{SERVER_ADDRESS}; sleep 2"), *HELLO]
    task = asyncio.create_task(ask(targets(three), commands, timeout=8.0))
    while not begun.exists():
        await asyncio.sleep(0.01)
    three.servers[2].freeze()
    answers = await task
    failure = answers["n3"].failure
    assert failure is not None
    assert "no answer within 8 s" in failure.reason
    assert answers["n1"].failure is answers["n2"].failure is None
    assert answers["n1"].seconds < answers["n3"].seconds


async def test_first_contact_shows_the_fingerprint(single: Servers) -> None:
    single.known_hosts.write_text("")
    shown = subprocess.run(
        ["ssh-keygen", "-lf", single.folder / "host.pub"], capture_output=True, text=True, check=True
    )
    with pytest.raises(HostKeyUnknown) as caught:
        await log_in(targets(single)[0])
    assert shown.stdout.split()[1] in caught.value.message
    assert "accept it" in caught.value.hint
    assert f"-p {single.servers[0].port}" in caught.value.hint


async def test_known_hosts_none_in_the_users_configuration_accepts_nothing(
    single: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host *\n  UserKnownHostsFile none\n  StrictHostKeyChecking no\n")
    monkeypatch.setenv("HOME", str(home))
    target = Target(name="n1", host=single.servers[0].address, login=login(single, single.servers[0], known_hosts=None))
    with pytest.raises(HostKeyUnknown):
        await log_in(target)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "/no/such/key"}, "/no/such/key"),
        ({"jump": "@@@"}, "not a jump host"),
        ({"password": Secret(env="RAILBED_TEST_NOT_SET")}, "RAILBED_TEST_NOT_SET is not set"),
        ({"password": Secret(keyring="railbed-test/nobody")}, "keyring"),
    ],
)
async def test_a_login_that_cannot_work_is_one_sentence(
    single: Servers, changes: dict[str, object], message: str
) -> None:
    target = Target(name="n1", host=single.servers[0].address, login=login(single, single.servers[0], **changes))
    with pytest.raises(DeviceError) as caught:
        await log_in(target)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


async def test_machines_behind_a_jump_host_share_the_connection_to_it(three: Servers) -> None:
    jump, *behind = three.servers
    way = f"{three.user}@{jump.address}:{jump.port}"
    nodes = [
        Target(name=f"n{index}", host=server.address, login=login(three, server, jump=way))
        for index, server in enumerate(behind)
    ]
    answers = await ask(nodes, HELLO)
    assert all(answer.outputs[0].stdout == b"hello\n" for answer in answers.values())
    assert (three.folder / f"{jump.address}.log").read_text().count("Accepted publickey") == 1


async def test_a_dead_jump_host_is_reported_for_each_machine_behind_it(three: Servers) -> None:
    jump, *behind = three.servers
    jump.kill()
    way = f"{three.user}@{jump.address}:{jump.port}"
    nodes = [
        Target(name=server.address, host=server.address, login=login(three, server, jump=way)) for server in behind
    ]
    answers = await ask(nodes, HELLO)
    assert len(answers) == 2
    assert all(answer.failure and "cannot be reached" in answer.failure.reason for answer in answers.values())


async def test_the_users_own_configuration_is_enough(
    single: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = single.servers[0]
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(
        f"Host trainer\n  HostName {server.address}\n  Port {server.port}\n  User {single.user}\n"
        f"  IdentityFile {single.key}\n  UserKnownHostsFile {single.known_hosts}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    answers = await ask([Target(name="trainer", host="trainer")], HELLO)
    assert answers["trainer"].outputs[0].stdout == b"hello\n"


async def test_a_key_in_the_agent(single: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            await asyncio.sleep(0.01)
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(single.key)], env=environment, check=True, capture_output=True)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        monkeypatch.setenv("HOME", str(tmp_path / "empty"))
        target = Target(name="n1", host=single.servers[0].address, login=login(single, single.servers[0], key=None))
        assert (await ask([target], HELLO))["n1"].outputs[0].stdout == b"hello\n"
    finally:
        agent.terminate()
        agent.wait()


async def test_a_key_with_a_passphrase(single: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", single.key], check=True)
    monkeypatch.setenv("RAILBED_TEST_PASSPHRASE", "open sesame")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    server = single.servers[0]
    with_passphrase = login(single, server, passphrase=Secret(env="RAILBED_TEST_PASSPHRASE"))
    answers = await ask([Target(name="n1", host=server.address, login=with_passphrase)], HELLO)
    assert answers["n1"].outputs[0].stdout == b"hello\n"


@pytest.mark.parametrize(
    ("host", "changes"),
    [
        ("a..b", {}),
        ("127.0.0.2", {"jump": "127.0.0.1:99999"}),
        ("127.0.0.2", {"key": "~nosuchuser/key"}),
        ("127.0.0.2", {"key": "/tmp"}),
        ("127.0.0.2", {"known_hosts": "GARBAGE"}),
    ],
)
async def test_one_odd_node_is_its_own_failure(
    three: Servers, tmp_path: Path, host: str, changes: dict[str, object]
) -> None:
    if "known_hosts" in changes:
        (tmp_path / "garbage").write_bytes(b"@foo \xff\xfe bar\n\x00\x01\n")
        changes = {"known_hosts": str(tmp_path / "garbage")}
    odd = Target(name="odd", host=host, login=login(three, three.servers[0], **changes))
    answers = await ask([odd, *targets(three)[1:]], HELLO)
    assert answers["odd"].failure
    assert "\n" not in answers["odd"].failure.reason
    assert answers["n2"].failure is answers["n3"].failure is None


async def test_each_login_to_a_jump_host_is_its_own(three: Servers) -> None:
    jump, first, second = three.servers
    way = f"{jump.address}:{jump.port}"
    nodes = [
        Target(name="bad", host=first.address, login=login(three, first, jump=way, user="nosuchuser")),
        Target(name="good", host=second.address, login=login(three, second, jump=way)),
    ]
    answers = await ask(nodes, HELLO)
    assert answers["bad"].failure
    assert answers["good"].failure is None


async def test_a_command_that_hangs_costs_at_most_half_of_the_devices_time(single: Servers) -> None:
    commands = [
        *HELLO,
        Command(key="hangs", script="sleep 60", timeout=60.0),
        Command(key="after", script="echo after"),
    ]
    answer = (await ask(targets(single), commands, timeout=8.0))["n1"]
    assert answer.failure is None
    assert [output.failure for output in answer.outputs] == ["", "did not finish within 4 s", ""]


async def test_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server of asyncssh's own, because OpenSSH checks passwords only against real accounts."""
    key = asyncssh.generate_private_key("ssh-ed25519")

    class Door(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("ann", "open sesame")

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        script = await process.stdin.readexactly(int(re.findall(r"head -c (\d+)", process.command or "")[0]))
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", process.command or "", stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        assert shell.stdin
        assert shell.stdout
        assert shell.stderr
        shell.stdin.write(script)
        process.stdout.write(await shell.stdout.read())
        process.stderr.write(await shell.stderr.read())
        shell.stdin.close()
        await shell.wait()
        process.exit(0)

    server = await asyncssh.create_server(
        Door, "127.0.0.1", 0, server_host_keys=[key], process_factory=serve, encoding=None
    )
    port = server.get_port()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
    monkeypatch.setenv("RAILBED_TEST_PASSWORD", "open sesame")
    door = Login(user="ann", port=port, known_hosts=str(known), password=Secret(env="RAILBED_TEST_PASSWORD"))
    async with server:
        answers = await ask([Target(name="door", host="127.0.0.1", login=door)], HELLO)
        assert answers["door"].outputs[0].stdout == b"hello\n"
        monkeypatch.setenv("RAILBED_TEST_PASSWORD", "wrong")
        with pytest.raises(LoginRefused) as caught:
            await log_in(Target(name="door", host="127.0.0.1", login=door))
        assert "wrong" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("shell", "message"),
    [("exit 1", "ended the session at once"), ("echo This account is currently not available.", "not available")],
)
async def test_an_account_without_a_shell(tmp_path: Path, shell: str, message: str) -> None:
    with running_servers(1, tmp_path, shell=shell) as servers:
        answers = await ask(targets(servers), HELLO)
    failure = answers["n1"].failure
    assert failure is not None
    assert message in failure.reason


async def test_a_login_that_greets_first(tmp_path: Path) -> None:
    with running_servers(1, tmp_path, shell="echo WELCOME; echo MOTD >&2; exec sh -s") as servers:
        answers = await ask(targets(servers), HELLO)
    (output,) = answers["n1"].outputs
    assert (output.stdout, output.stderr) == (b"hello\n", b"")


async def test_a_slow_login_shell_is_called_that_and_is_left_to_end_by_itself(tmp_path: Path) -> None:
    """Whoever kills a shell in its start-up files leaves their locks behind."""
    slow = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; touch {tmp_path}/ended; exec sh -s"
    with running_servers(1, tmp_path, shell=slow) as servers:
        (answer,) = (await ask(targets(servers), HELLO, timeout=2.0)).values()
        assert answer.failure
        assert answer.failure.reason == "it accepted the login, but its login shell did not start within 2 s"
        assert "~/.bashrc" in answer.failure.remedy
        assert answer.failure.timed_out
        (tmp_path / "go").touch()
        async with asyncio.timeout(30):
            while not (tmp_path / "ended").exists() or descendants(servers.servers[0].process.pid):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        # Megabytes at once, and a flood that does not reach the limit before the time is over.
        ("exec yes", "its login printed more than 4 MiB before a command could start"),
        ("head -c 200000 /dev/zero; sleep 60", "its output did not end within 4 s"),
    ],
)
async def test_a_login_that_floods_is_not_called_slow(tmp_path: Path, shell: str, message: str) -> None:
    with running_servers(1, tmp_path, shell=shell) as servers:
        (answer,) = (await ask(targets(servers), HELLO, timeout=4.0 if "head" in shell else 60.0)).values()
    assert answer.failure
    assert answer.failure.reason == message
    assert "/etc/profile" in answer.failure.remedy


async def test_nobody_listens() -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        await log_in(Target(name="n1", host="127.0.0.1", login=Login(port=1)))


async def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(Unreachable, match=r"no-such-host\.invalid"):
        await log_in(Target(name="n1", host="no-such-host.invalid"))
