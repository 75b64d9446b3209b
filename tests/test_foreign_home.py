"""A HOME of another user, as `sudo -E` passes on: nothing in it is executed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed.cli.slurm.allocation import _site_file
from railbed.errors import UsageError
from tests.support.cli import railbed
from tests.support.strangers import local_user, open_folder, run_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create another user")


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    with local_user() as name:
        yield name


@pytest.fixture
def home(stranger: str) -> Iterator[Path]:
    with open_folder() as shared:
        run_as(stranger, 'mkdir -p "$1/.ssh" "$1/.config/railbed"', shared / "home")
        yield shared / "home"


@pytest.mark.parametrize("line", ["Match exec \"touch 'MARK'\"", "ProxyCommand touch MARK"])
def test_the_ssh_configuration_of_local_user_executes_nothing(
    stranger: str, home: Path, tmp_path: Path, line: str, unused_tcp_port: int
) -> None:
    mark = tmp_path / "executed"
    run_as(stranger, 'printf "%s\\n" "$2" >"$1/.ssh/config"', home, line.replace("MARK", str(mark)))
    node = f"{{host: 127.0.0.1, login: {{user: root, port: {unused_tcp_port}}}}}"
    (tmp_path / "cluster.yaml").write_text(f"name: one\nrails: {{}}\nnodes:\n  node1: {node}\n")
    done = railbed(tmp_path, "check", "-c", "cluster.yaml", "--json", HOME=str(home))
    assert f"{home}/.ssh/config belongs to {stranger}, and commands that it names" in done.out + done.err, done
    assert not mark.exists()


def test_the_site_file_of_local_user_is_not_used(stranger: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(stranger, 'echo "{}" >"$1/.config/railbed/slurm.yaml"', home)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "RAILBED_SITE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=rf"slurm\.yaml belongs to {stranger}, and programs that it names"):
        _site_file("")
    file = home / ".config" / "railbed" / "slurm.yaml"
    os.chown(file, 0, 0)
    assert _site_file("") == file
    file.chmod(0o666)
    with pytest.raises(UsageError, match="can be written by everybody"):
        _site_file("")
