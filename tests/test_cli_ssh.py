"""The verbs over real SSH servers: the same facts give the same findings, and a machine's failure is a value."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import railbed, start
from tests.support.sshd import SSHD, Servers, running_servers

pytestmark = [pytest.mark.ssh, pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")]
# What these see changes from one second to the next, or with the way the machine is reached: the servers have a /run
# of their own, where a change in progress is noted.
MOVING = {"disk_space", "memory_available", "memlock", "clock_offset", "pending_change", "other_run"}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    keys = tmp_path / "keys"
    keys.mkdir()
    with running_servers(3, keys) as servers:
        (tmp_path / "cluster.yaml").write_text(servers.cluster_yaml())
        yield servers


def slow_down(servers: Servers, folder: Path) -> Path:
    """Let every node hang in one probe; the path returned appears as soon as the last node does."""
    begun = folder / servers.servers[-1].address
    script = folder / "slow-python"
    script.write_text(f"#!/bin/sh\ntouch {folder}/$(echo $SSH_CONNECTION | cut -d' ' -f3)\nsleep 60\n")
    script.chmod(0o755)
    text = servers.cluster_yaml().replace("{host:", f"{{python: {script}, host:")
    (folder / "cluster.yaml").write_text(text)
    return begun


def use_home(servers: Servers, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the servers to the user's own OpenSSH configuration."""
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(
        f"Host *\n  IdentityFile {servers.key}\n  UserKnownHostsFile {servers.known_hosts}\n"
    )
    monkeypatch.setenv("HOME", str(home))


def running(script: Path) -> list[str]:
    """Return the processes that run a script, whoever their parent is by now."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(script).encode() in path.read_bytes():
                processes.append(path.parent.name)
    return processes


def await_path(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.exists()


def core(findings: list[dict[str, Any]], nodes: set[str]) -> list[tuple[str, str, str, str]]:
    return sorted(
        (finding["check"], finding["subject"], finding["verdict"], finding["observed"])
        for finding in findings
        if finding["subject"].partition("/")[0] in nodes and finding["check"] not in MOVING
    )


@pytest.mark.xdist_group("bench")  # whose tests change this machine for a moment
def test_local_ssh_and_recording_say_the_same(three: Servers, tmp_path: Path) -> None:
    server = three.servers[0]
    port = "{netdev: lo, rail: loop, address: 127.0.0.1}"
    settings = (
        f"policy: {{host_mtu: 1500}}\ntraining: {{python: {sys.executable}}}\n"  # a login may find another Python
    )
    body = f"rails: {{loop: {{subnet: 127.0.0.0/8}}}}\n{settings}nodes:\n  n: {{ports: [{port}], host: "
    (tmp_path / "local.yaml").write_text(f"name: one\n{body}local}}\n")
    (tmp_path / "ssh.yaml").write_text(
        f"name: one\nlogin: {{user: {three.user}, key: {three.key}, known_hosts: {three.known_hosts}, "
        f"port: {server.port}}}\n{body}{server.address}}}\n"
    )
    local = railbed(tmp_path, "check", "-c", "local.yaml", "--json").findings
    ssh = railbed(tmp_path, "check", "-c", "ssh.yaml", "--json", "--record", "rec").findings
    replay = railbed(tmp_path, "check", "--replay", "rec", "--json").findings
    assert len(local) > 20
    assert core(local, {"n", "loop", "cluster"}) == core(ssh, {"n", "loop", "cluster"})
    assert [{**finding, "time": 0} for finding in ssh] == [{**finding, "time": 0} for finding in replay]


def test_a_killed_host_is_one_finding(three: Servers, tmp_path: Path) -> None:
    before = railbed(tmp_path, "check", "--json").findings
    three.servers[1].kill()
    result = railbed(tmp_path, "check", "--json", "--record", "rec")
    assert result.code == 1
    assert [(f["check"], f["verdict"]) for f in result.findings if f["subject"] == "n2"] == [("reachable", "fail")]
    assert {f["check"] for f in before if f["subject"] == "n1"} == {
        f["check"] for f in result.findings if f["subject"] == "n1"
    }
    replayed = railbed(tmp_path, "check", "--replay", "rec", "--json")
    assert [{**f, "time": 0} for f in replayed.findings] == [{**f, "time": 0} for f in result.findings]


def test_a_dead_host_is_reported_whatever_was_asked(three: Servers, tmp_path: Path) -> None:
    three.servers[1].kill()
    findings = railbed(tmp_path, "check", "disk_space", "--json").findings
    assert [(f["check"], f["subject"]) for f in findings if f["verdict"] == "fail"] == [("reachable", "n2")]


def test_all_hosts_dead_is_its_own_exit_code(three: Servers, tmp_path: Path) -> None:
    for server in three.servers:
        server.kill()
    result = railbed(tmp_path, "check", "--json")
    assert result.code == 3
    assert [f["verdict"] for f in result.findings if f["check"] == "reachable"] == ["fail"] * 3


def test_a_command_that_hangs_is_unknown_and_the_rest_is_judged(three: Servers, tmp_path: Path) -> None:
    slow_down(three, tmp_path)
    file = tmp_path / "cluster.yaml"
    file.write_text(file.read_text().replace(f"python: {tmp_path}/slow-python", "python: python3", 2))
    findings = {(f["subject"], f["check"]): f for f in railbed(tmp_path, "check", "--json", "--timeout", "10").findings}
    assert findings["n3", "reachable"]["verdict"] == "ok"
    assert findings["n3", "torch_equal"]["verdict"] == "unknown"
    assert findings["n3", "torch_equal"]["observed"] == "torch did not finish within 5 s"
    assert findings["n3", "disk_space"]["verdict"] == findings["n1", "disk_space"]["verdict"]


def test_a_host_that_hangs_half_way_is_one_finding(tmp_path: Path) -> None:
    """`lscpu`, in the middle of what is asked, stands in for the moment at which the last machine freezes."""
    lscpu = tmp_path / "bin" / "lscpu"
    lscpu.parent.mkdir()
    address = "$(echo $SSH_CONNECTION | cut -d' ' -f3)"
    lscpu.write_text(
        f'#!/bin/sh\n[ "{address}" = 127.0.0.4 ] && touch {tmp_path}/begun && sleep 60\nexec /usr/bin/lscpu "$@"\n'
    )
    lscpu.chmod(0o755)
    (tmp_path / "keys").mkdir()
    options = [f"SetEnv HOME={tmp_path}/keys PATH={lscpu.parent}:/usr/bin:/bin"]
    with running_servers(3, tmp_path / "keys", options=options) as servers:
        (tmp_path / "cluster.yaml").write_text(servers.cluster_yaml())
        process = start(tmp_path, "check", "--json", "--timeout", "12")
        await_path(tmp_path / "begun")
        servers.servers[2].freeze()
        out, err = process.communicate(timeout=60)
    findings = [record for line in out.splitlines() if (record := json.loads(line))["kind"] == "finding"]
    by_subject = {(f["subject"], f["check"]): f for f in findings}
    reachable = by_subject["n3", "reachable"]
    # A machine whose own timers are late does not blame the node.
    overloaded = reachable["observed"].startswith("this machine is overloaded")
    assert reachable["verdict"] == ("unknown" if overloaded else "fail"), err
    assert "no answer within 12 s" in reachable["observed"]
    for (subject, check), finding in by_subject.items():
        # What was read before it hung is judged as on the others; what was not is told of once, above.
        if subject == "n3" and check not in ("reachable", "governor", "nodes_alike"):
            assert finding["verdict"] == by_subject["n1", check]["verdict"]
    assert {"n1", "n2", "n3"} <= {subject for subject, _ in by_subject}
    has_failed = any(finding["verdict"] == "fail" for finding in by_subject.values())
    assert process.returncode == (1 if has_failed else 3)


def test_an_unknown_host_key_says_what_to_do(three: Servers, tmp_path: Path) -> None:
    three.known_hosts.write_text("")
    result = railbed(tmp_path, "check", "reachable", "--json")
    assert result.code == 3
    for finding in result.findings:
        assert "SHA256:" in finding["observed"]
        assert "accept it" in finding["remedy"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_end_everything_and_say_so(three: Servers, tmp_path: Path, number: signal.Signals) -> None:
    begun = slow_down(three, tmp_path)
    process = start(tmp_path, "check")
    await_path(begun)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (run,) = railbed(tmp_path, "runs", "--json").records
    assert run["status"] == "stopped"
    sentence, saved, again = err.decode().splitlines()
    assert sentence == "railbed: interrupted"
    assert saved.startswith(f"  saved in runs/{run['id']}: ")
    assert again == "  start again: railbed check"
    deadline = time.monotonic() + 15
    while running(tmp_path / "slow-python") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(tmp_path / "slow-python") == []


def test_a_killed_railbed_leaves_a_readable_run(three: Servers, tmp_path: Path) -> None:
    begun = slow_down(three, tmp_path)
    process = start(tmp_path, "check")
    await_path(begun)
    (while_running,) = railbed(tmp_path, "runs", "--json").records
    process.kill()
    process.communicate()
    (run,) = railbed(tmp_path, "runs", "--json").records
    assert (while_running["status"], run["status"]) == ("running", "died")


def test_discover_writes_a_file_and_then_shows_what_changed(
    three: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_home(three, tmp_path / "home", monkeypatch)
    hosts = [f"{three.user}@{server.address}:{server.port}" for server in three.servers]
    first = railbed(tmp_path, "discover", *hosts, "-c", "found.yaml")
    assert first.code == 0, first
    text = (tmp_path / "found.yaml").read_text()
    assert text.count("host: 127.0.0.") == 3
    assert f"user: {three.user}" in text

    assert railbed(tmp_path, "discover", "-c", "found.yaml").code == 0
    edited = (
        "# my comment\n" + text.replace("nodes:", "nodes:  # three of them") + "\ntraining: {rendezvous_port: 29501}\n"
    )
    edited += "rails: {old: {subnet: 10.9.0.0/24}}\n" if "rails:" not in text else ""
    gpu = edited.replace(
        f"login: {{port: {three.servers[0].port}}}",
        f"login: {{port: {three.servers[0].port}}}\n    gpus: [{{name: V100}}]",
        1,
    )
    assert gpu != edited
    (tmp_path / "found.yaml").write_text(gpu)
    changed = railbed(tmp_path, "discover", "-c", "found.yaml")
    assert changed.code == 1, changed
    assert "gpus" in changed.out
    assert (tmp_path / "found.yaml").read_text() == gpu
    written = railbed(tmp_path, "discover", "-c", "found.yaml", "--write")
    assert written.code == 0, written
    content = (tmp_path / "found.yaml").read_text()
    assert "# my comment" in content
    assert "# three of them" in content
    assert "29501" in content
    assert "V100" not in content


def test_discover_with_a_dead_host_keeps_the_others(
    three: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_home(three, tmp_path / "home", monkeypatch)
    three.servers[1].kill()
    hosts = [f"{three.user}@{server.address}:{server.port}" for server in three.servers]
    result = railbed(tmp_path, "discover", *hosts, "-c", "found.yaml")
    assert result.code == 3
    assert three.servers[1].address in result.err
    assert (tmp_path / "found.yaml").read_text().count("host: 127.0.0.") == 2
