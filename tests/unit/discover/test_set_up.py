"""The files of a first contact: known_hosts as OpenSSH writes it, a new key, and a line in authorized_keys."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import asyncssh
import pytest

from railbed.discover.account import INSTALLED, PRESENT, REMOVED, install_key, remove_keys
from railbed.discover.known_hosts import add_host_keys, are_hashed
from railbed.errors import UsageError
from railbed.transport.base import Command
from railbed.transport.ssh.contact import create_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC10QI6qeptUconMRWvLP/iKPvJ2c1g0zFqXVtz2ZMLs"
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)] or ["sh"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))


def run(home: Path, command: Command, shell: str = "sh") -> str:
    """Run a command in a home folder, in a subshell as a batch does, and return what it printed."""
    words = [shell, *(["sh"] if shell == "busybox" else []), "-c", f"(\n{command.script}\n)"]
    environment = {"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.strip()


def tree(home: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(home)): (stat.S_IMODE(path.stat().st_mode), path.read_text() if path.is_file() else "")
        for path in sorted(home.rglob("*"))
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_a_key_in_an_empty_home_leaves_nothing_when_it_is_taken_back(tmp_path: Path, shell: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert run(home, install_key(KEY), shell) == INSTALLED
    installed = tree(home)
    assert {name: mode for name, (mode, _) in installed.items()} == {".ssh": 0o700, ".ssh/authorized_keys": 0o600}
    assert installed[".ssh/authorized_keys"][1].startswith(f"{KEY} ")
    assert run(home, install_key(KEY), shell) == PRESENT
    assert tree(home) == installed
    assert run(home, remove_keys([OTHER]), shell) == ""
    assert tree(home) == installed
    assert run(home, remove_keys([OTHER, KEY]), shell) == REMOVED
    assert tree(home) == {}
    assert run(home, remove_keys([KEY]), shell) == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_there_stays(tmp_path: Path, shell: str) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    file, real = home / ".ssh" / "authorized_keys", home / "keys"
    real.write_text(f"# {KEY} is not in use\r\n{OTHER} a b")
    real.chmod(0o640)
    file.symlink_to(Path("..", "keys"))
    before = real.read_text()
    assert run(home, install_key(KEY), shell) == INSTALLED
    assert real.read_text().startswith(f"{before}\n{KEY} ")
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert run(home, remove_keys([KEY]), shell) == REMOVED
    assert real.read_text() == f"{before}\n"
    assert sorted(tree(home)) == [".ssh", ".ssh/authorized_keys", "keys"]


def test_a_key_that_somebody_installed_by_hand_is_not_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    file = tmp_path / ".ssh" / "authorized_keys"
    file.write_text(f"{KEY} ann\n")
    assert run(tmp_path, install_key(KEY)) == PRESENT
    assert run(tmp_path, remove_keys([KEY])) == ""
    assert file.read_text() == f"{KEY} ann\n"


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("name", ["node1", "[10.0.0.11]:2222", "fe80::1"])
def test_openssh_and_asyncssh_find_the_host_keys(tmp_path: Path, name: str, hashed: bool) -> None:
    file = tmp_path / "new" / "known_hosts"
    add_host_keys(file, [(name, KEY)], hashed=hashed)
    add_host_keys(file, [("other", OTHER)], hashed=hashed)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert (name in file.read_text()) is not hashed
    listed = subprocess.run(["ssh-keygen", "-F", name, "-f", file], capture_output=True, text=True, check=True)
    assert KEY in listed.stdout
    assert OTHER not in listed.stdout
    host, port = ("10.0.0.11", 2222) if name.startswith("[") else (name, None)
    (key,) = asyncssh.read_known_hosts(str(file)).match(host, "", port)[0]
    assert key.export_public_key("openssh").decode().split()[:2] == KEY.split()


def test_known_hosts_keeps_its_lines_its_mode_and_its_link(tmp_path: Path) -> None:
    real, file = tmp_path / "dotfiles", tmp_path / "known_hosts"
    real.write_text(f"# mine\nold {OTHER}")
    real.chmod(0o644)
    file.symlink_to(real)
    add_host_keys(file, [("new", KEY)], hashed=False)
    assert real.read_text() == f"# mine\nold {OTHER}\nnew {KEY}\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
    assert file.is_symlink()


async def test_names_are_hashed_as_those_before(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"|1|a|b {KEY}\nplain {KEY}\n# |1|\n")
    assert not await are_hashed(file, "h")
    file.write_text(f"plain {KEY}\n|1|a|b {KEY}\n")
    assert await are_hashed(file, "h")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "dot" / "key"
    created = create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = subprocess.run(["ssh-keygen", "-y", "-f", path], capture_output=True, text=True, check=True).stdout
    assert shown.split()[:2] == created.public.split()
    assert path.with_name("key.pub").read_text().split()[:2] == created.public.split()
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"no key is created, since .*key exists"):
        create_key(path)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path, path.with_name("key.pub")]
