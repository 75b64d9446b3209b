"""`discover --set-up` on machines that nobody has logged in to: real sshd, a real account with a password."""

from __future__ import annotations

import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bare_machines import PASSWORD, BareMachines, bare_machines
from tests.support.benchsite import processes_with
from tests.support.cli import RAILBED, environment, railbed, start
from tests.support.disks import fill
from tests.support.sshd import SSHD
from tests.support.terminal import Terminal

pytestmark = [
    pytest.mark.whole,
    pytest.mark.ssh,
    pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed"),
]
FOREIGN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl somebody"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[BareMachines]:
    with bare_machines(2, tmp_path) as machines:
        yield machines


def test_set_up_again_and_undo(two: BareMachines) -> None:
    (two.home(1) / ".ssh").mkdir()
    (two.home(1) / ".ssh" / "authorized_keys").write_text(FOREIGN)  # without a line break at its end
    two.give_homes()
    assert two.keys(0) == ""
    result = two.set_up()
    assert result.code == 0, result
    assert "cluster.yaml: written: 2 nodes" in result.err
    key = two.here / ".ssh" / "id_ed25519"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    public = key.with_name("id_ed25519.pub").read_text().split()[1]
    foreign, own = two.keys(1).splitlines()
    assert foreign == FOREIGN
    assert public in own
    assert public in two.keys(0)
    assert stat.S_IMODE((two.home(0) / ".ssh" / "authorized_keys").stat().st_mode) == 0o600
    for server in two.servers:  # OpenSSH accepts the host keys and the key that railbed wrote
        options = ["-F", "none", "-o", f"UserKnownHostsFile={two.here}/.ssh/known_hosts", "-o", "BatchMode=yes"]
        place = ["-p", str(server.port), "-i", str(key), f"{two.user}@{server.address}"]
        done = subprocess.run(["ssh", *options, *place, "echo hello"], capture_output=True, text=True, check=False)
        assert done.stdout == "hello\n", done.stderr

    before = key.read_bytes(), two.keys(0), two.keys(1)
    again = two.call("--json")  # neither a fingerprint nor a password
    assert again.code in (0, 1), again  # labs come and go on this machine, and so do their interfaces
    assert not [record for record in again.records if record.get("name") in ("host_key", "device_changed")]
    assert (key.read_bytes(), two.keys(0), two.keys(1)) == before

    back = two.call("--undo")
    assert back.code == 0, back
    assert back.out.count("is removed") == 2
    assert not (two.home(0) / ".ssh").exists()
    assert two.keys(1) == f"{FOREIGN}\n"
    repeated = two.call("--undo")
    assert repeated.code == 0, repeated
    assert "admits none of your keys" in " ".join(repeated.out.split())
    for file in two.everything():
        assert PASSWORD.encode() not in file.read_bytes(), file


def test_nothing_is_sent_to_a_host_whose_key_is_not_confirmed(two: BareMachines) -> None:
    result = two.call("--password", "env:LAB_PASSWORD", LAB_PASSWORD=PASSWORD)
    assert result.code == 3, result
    assert result.err.count("is not confirmed, so nothing was sent to it: ssh-ed25519 SHA256:") == 2
    assert f"`--fingerprint {two.fingerprint}` confirms it" in result.err
    assert not (two.here / ".ssh" / "known_hosts").exists()
    assert not (two.here / ".ssh" / "id_ed25519").exists()
    for log in two.logs():
        assert "Connection closed" in log
        assert two.user not in log, log


def test_a_person_confirms_and_types_the_password(two: BareMachines) -> None:
    words = [RAILBED, "discover", "--set-up", "--no-sudo", *two.hosts]
    with Terminal(words, two.here, environment(**two.variables(COLUMNS="120"))) as terminal:
        shown = terminal.read("are these 2 the host keys? [y/N]")
        assert shown.count(two.fingerprint) == 2
        assert two.keys(0) == ""
        terminal.type("y\n")
        terminal.read(f"password of {two.user} on 2 machines: ")
        terminal.type(f"{PASSWORD}\n")
        shown = terminal.read()
    assert PASSWORD not in shown
    assert shown.count("is installed") == 2
    assert two.keys(0)


def test_what_is_wrong_with_a_machine_is_a_sentence_and_the_others_are_done(tmp_path: Path) -> None:
    down, changed, refused, full = 1, 2, 3, 4
    with bare_machines(8, tmp_path, disks=[full]) as eight:
        hosts = [*eight.hosts]
        hosts[refused] = f"nobody@{eight.servers[refused].address}:{eight.servers[refused].port}"
        eight.servers[down].kill()
        known = eight.here / ".ssh" / "known_hosts"
        known.parent.mkdir(mode=0o700)
        place = f"[{eight.servers[changed].address}]:{eight.servers[changed].port}"
        known.write_text(f"{place} {FOREIGN}\n")
        filling = fill(eight.home(full))
        result = eight.set_up(hosts=hosts, COLUMNS="1000")
        assert result.code == 3, result
        sentences = {
            down: "cannot be reached: Connection refused",
            changed: "has changed: ",
            refused: "refused the password of nobody",
            full: f"the disk of {eight.servers[full].address} port {eight.servers[full].port} is full",
        }
        lines = result.err.splitlines()
        for number, words in sentences.items():
            about = [line for line in lines if f"{eight.servers[number].address} " in line and words in line]
            assert len(about) == 1, (number, result.err)
        assert [number for number in range(8) if eight.keys(number)] == [0, 5, 6, 7]
        assert [*eight.home(full).iterdir()] == [filling]
        assert "written: 4 nodes" in result.err

        filling.unlink()
        known.write_text(
            "".join(line for line in known.read_text().splitlines(keepends=True) if not line.startswith(place))
        )
        again = eight.set_up(COLUMNS="1000")
        assert again.code == 3, again  # the one that is down
        assert [number for number in range(8) if eight.keys(number)] == [0, 2, 3, 4, 5, 6, 7]
        assert again.out.count("is installed") == 3

        back = eight.call("--undo", COLUMNS="1000")
        assert back.code == 3, back  # it could have a key, and is the one that is named
        about = [line for line in back.err.splitlines() if "cannot be reached" in line]
        assert len(about) == 1, back
        assert f"{eight.servers[down].address} " in about[0]
        assert back.out.count("is removed") == 7
        assert not [number for number in range(8) if (eight.home(number) / ".ssh").exists()]


def test_ctrl_c_in_the_middle_and_a_second_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bare_machines(2, tmp_path, options=["ForceCommand sh {folder}/{address}.sh"]) as two:
        usual = 'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
        scripts = [two.homes / f"{server.address}.sh" for server in two.servers]
        scripts[0].write_text(usual)
        scripts[1].write_text(f"touch {two.home(1)}/has-begun; until [ -e {two.home(1)}/end ]; do sleep 0.2; done\n")
        hangs = two.home(1) / "has-begun"
        for name, value in two.variables(LAB_PASSWORD=PASSWORD).items():
            monkeypatch.setenv(name, value)
        words = ["discover", "--set-up", *two.hosts, "--fingerprint", two.fingerprint, "--password", "env:LAB_PASSWORD"]
        running = start(two.here, *words)
        deadline = time.monotonic() + 120
        while not (hangs.exists() and two.keys(0)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert processes_with(PASSWORD) == []
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
        assert running.wait() == 130
        assert "railbed: interrupted" in err.decode()
        assert b"Traceback" not in err
        assert two.keys(1) == ""
        (two.home(1) / "end").touch()
        scripts[1].write_text(usual)
        again = two.set_up()
        assert again.code == 0, again
        assert two.keys(1)
        back = two.call("--undo")
        assert back.code == 0, back
        assert not [number for number in range(2) if (two.home(number) / ".ssh").exists()]


def test_a_password_of_some_of_the_machines_sets_those_up(two: BareMachines) -> None:
    wrong = two.set_up(LAB_PASSWORD="battery-staple-8", COLUMNS="1000")  # noqa: S106  (a wrong one)
    assert wrong.code == 3, wrong
    for server in two.servers:
        sentence = f"{server.address} port {server.port} refused the password of {two.user}"
        assert wrong.err.count(sentence) == 1, wrong
    assert not [number for number in range(2) if (two.home(number) / ".ssh").exists()]
    assert not (two.here / "cluster.yaml").exists()
    assert all(log.count("Failed password") == 1 for log in two.logs())
    again = two.set_up()
    assert again.code == 0, again
    assert "written: 2 nodes" in again.err


def test_an_undo_of_a_full_disk_leaves_no_key(tmp_path: Path) -> None:
    with bare_machines(2, tmp_path, disks=[1]) as two:
        assert two.set_up().code == 0
        fill(two.home(1))
        back = two.call("--undo", COLUMNS="1000")
        assert back.code == 0, back
        assert not [number for number in range(2) if (two.home(number) / ".ssh").exists()]


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
def test_sudo_without_a_password_and_back(tmp_path: Path) -> None:
    with bare_machines(1, tmp_path, sudoer=True) as machines:
        rules, number = machines.homes / "sudo", pwd.getpwnam(machines.user).pw_uid
        result = machines.set_up("--sudo", COLUMNS="1000")
        assert result.code == 0, result
        assert f"{machines.user} uses sudo without a password" in result.out
        file = rules / f"railbed-{number}"
        assert f"\n#{number} ALL=(ALL:ALL) NOPASSWD: ALL\n" in file.read_text()
        assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_uid) == (0o440, 0)
        back = machines.call("--undo", COLUMNS="1000")
        assert back.code == 0, back
        assert "sudo asks for a password again, and the key of the set-up is removed" in back.out
        assert [path.name for path in rules.iterdir()] == ["account"]
        assert not (machines.home(0) / ".ssh").exists()
        for path in machines.everything():
            assert PASSWORD.encode() not in path.read_bytes(), path


def test_an_account_that_cannot_use_sudo_is_named_and_admits_the_key(two: BareMachines) -> None:
    result = two.set_up("--sudo", COLUMNS="1000")
    assert result.code == 3, result
    sentence = "cannot use sudo on" if shutil.which("sudo") else "there is no sudo on"
    for server in two.servers:
        assert f"{sentence} {server.address} port {server.port}" in result.err
    assert two.keys(0)
    assert two.keys(1)
    assert "written: 2 nodes" in result.err


def test_a_key_that_sshd_still_refuses_is_taken_out_again(tmp_path: Path) -> None:
    with bare_machines(1, tmp_path, options=["AuthorizedKeysFile /nowhere/%u"]) as machines:
        result = machines.set_up(COLUMNS="1000")
        assert result.code == 3, result
        assert "refuses the key although it is in the authorized_keys" in result.err
        assert machines.keys(0) == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--undo"], "--undo goes only with --set-up"),
        (["--no-sudo"], "--sudo goes only with --set-up"),
        (["--password", "env:X"], "--password goes only with --set-up"),
        (["--set-up", "--password", "hunter22"], "the place of the password is not one"),
        (["--set-up", "--fingerprint", "MD5:1"], "--fingerprint 'MD5:1' is not one"),
        (["--set-up", "--replay", "x"], "--replay and --set-up do not go together"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], message: str) -> None:
    result = railbed(tmp_path, "discover", "h.invalid", *words)
    assert result.code == 2, result
    assert message in result.err
    assert "hunter22" not in result.err


@pytest.mark.parametrize("configured", [False, True], ids=["--jump", "ProxyJump"])
def test_the_hosts_on_the_way_are_set_up_first(tmp_path: Path, configured: bool) -> None:
    with bare_machines(3, tmp_path) as machines:
        way, *behind = machines.hosts
        words = [] if configured else ["--jump", way]
        if configured:
            hosts = " ".join(server.address for server in machines.servers[1:])
            machines.configure(f"Host {hosts}\n  ProxyJump {way}\n")
        result = machines.set_up(*words, hosts=behind, COLUMNS="1000")
        assert result.code == 0, result
        assert result.out.startswith(f"{machines.servers[0].address} port ")
        assert all(machines.keys(number) for number in range(3))
        assert all("Accepted password" in log for log in machines.logs())
        back = machines.call("--undo", *words, hosts=behind, COLUMNS="1000")
        assert back.code == 0, back
        assert not any(machines.keys(number) for number in range(3))


def test_a_jump_host_that_cannot_be_used_is_why_the_machines_behind_it_fail(two: BareMachines) -> None:
    two.servers[0].kill()
    result = two.set_up("--jump", two.hosts[0], hosts=two.hosts[1:], COLUMNS="1000")
    assert result.code == 3, result
    assert f"jump host: {two.servers[0].address} port {two.servers[0].port} cannot be reached" in result.err
    assert two.keys(1) == ""


def test_a_site_that_admits_one_source_address(tmp_path: Path) -> None:
    with bare_machines(1, tmp_path, options=["AllowUsers *@127.0.0.9"]) as machines:
        refused = machines.set_up(COLUMNS="1000")
        assert refused.code == 3, refused
        assert "refused the password" in refused.err
        assert "needs it as `BindAddress` in ~/.ssh/config" in refused.err
        machines.configure("Host *\n  BindAddress 192.0.2.77\n")
        wrong = machines.set_up(COLUMNS="1000")
        assert wrong.code == 3, wrong
        assert f"this machine has no address 192.0.2.77, from which {machines.servers[0].address} is" in wrong.err
        machines.configure("Host *\n  BindAddress 127.0.0.9\n")
        result = machines.set_up(COLUMNS="1000")
        assert result.code == 0, result
        assert machines.keys(0)
