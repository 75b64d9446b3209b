"""discover over real SSH with the login on the command line, and which of its options the file contains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.model.cluster import Login
from tests.support.cli import Result, railbed
from tests.support.sshd import SSHD, Servers, running_servers

pytestmark = [
    pytest.mark.whole,
    pytest.mark.ssh,
    pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed"),
]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with running_servers(3, tmp_path) as servers:
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh" / "known_hosts").write_bytes(servers.known_hosts.read_bytes())
        yield servers


def places(servers: Servers, *numbers: int) -> list[str]:
    return [f"{servers.servers[number].address}:{servers.servers[number].port}" for number in numbers]


def discover(folder: Path, *arguments: str) -> Result:
    return railbed(folder, "discover", *arguments, HOME=str(folder), SSH_AUTH_SOCK="")


def test_the_login_of_the_command_line_is_the_files_and_a_check_needs_no_more(three: Servers, tmp_path: Path) -> None:
    result = discover(tmp_path, *places(three, 1, 2), "--user", three.user, "--key", "client")
    assert result.code == 0, result
    cluster = clusterfile.load(tmp_path / "cluster.yaml")
    assert cluster.login == Login(user=three.user, key="~/client")  # found from any folder
    assert {node.login for node in cluster.nodes.values()} == {Login(port=server.port) for server in three.servers[1:]}
    checked = railbed(tmp_path, "check", "reachable", "--json", HOME=str(tmp_path), SSH_AUTH_SOCK="")
    assert [finding["verdict"] for finding in checked.findings] == ["ok", "ok"]


def test_a_jump_host_is_used_and_written(three: Servers, tmp_path: Path) -> None:
    (way,) = places(three, 0)
    login = ["--user", three.user, "--key", str(three.key), "--jump", f"{three.user}@{way}"]
    assert discover(tmp_path, *places(three, 1), *login).code == 0
    assert clusterfile.load(tmp_path / "cluster.yaml").login.jump == f"{three.user}@{way}"


def test_beside_an_existing_file_the_login_is_that_of_the_new_machine(three: Servers, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    text = f"# ours\nname: ours\nlogin: {{user: {three.user}}}\nnodes:\n  old: {{host: 192.0.2.1}} # stays\n"
    file.write_text(text)
    words = [*places(three, 1), "--user", three.user, "--key", "client"]
    shown = discover(tmp_path, *words)
    assert f"`railbed discover {' '.join(words)} --write`" in " ".join(shown.err.split())  # the same machines again
    result = discover(tmp_path, *words, "--write")
    assert result.code == 0, result
    cluster = clusterfile.load(file)
    assert file.read_text().startswith(text.rstrip("\n"))
    (new,) = [node for name, node in cluster.nodes.items() if name != "old"]
    assert new.login == Login(port=three.servers[1].port, key="~/client")  # the user is everyone's


def test_without_hosts_the_login_of_the_file_is_changed(three: Servers, tmp_path: Path) -> None:
    place = f"{{host: {three.servers[0].address}, login: {{port: {three.servers[0].port}}}}}"
    file = tmp_path / "cluster.yaml"
    file.write_text(f"name: ours\nlogin: {{user: {three.user}, key: ~/gone}} # by hand\nnodes: {{a: {place}}}\n")
    shown = discover(tmp_path, "--key", "client")
    assert shown.code == 1, shown
    assert "login.key" in shown.out + shown.err
    assert "~/gone" in file.read_text()
    assert discover(tmp_path, "--key", "client", "--write").code == 0
    assert f"login: {{user: {three.user}, key: ~/client}} # by hand" in file.read_text()
