"""A lab of namespaces: verbs on it, its faults, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from railbed import clusterfile
from railbed.fleet import Fleet
from railbed.fleet.change import commit
from railbed.lab.folder import load_labs
from railbed.lab.netns.machine import namespace_file, node_namespace, processes
from railbed.model.fix import Fix
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support.benchsite import processes_with
from tests.support.cli import RAILBED, Result, environment, railbed
from tests.support.kills.labs import LabDownKilled
from tests.support.kills.scenario import attack
from tests.support.labs import RunningLab, call, end_up_at, running_lab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
NODES = ("node1", "node2", "node3", "node4")


@pytest.fixture
def lab(netns_lab: RunningLab) -> RunningLab:
    return netns_lab


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


def networks() -> set[str]:
    """Return the namespaces and interfaces of all labs on this machine."""
    return {path.name for path in [*Path("/run/netns").glob("railbed-*"), *Path("/sys/class/net").glob("railbed-*")]}


def left_behind(cache: Path, before: set[str]) -> set[str]:
    """Return namespaces and interfaces that are new and belong to no lab, and processes of the labs of this cache."""
    assert not list(cache.glob("labs/*"))
    deadline = time.monotonic() + 20
    while True:
        # Other tests have labs of their own, which come and go meanwhile.
        known = {lab.id for lab in load_labs()}
        left = {name for name in networks() - before if name.split("-")[1] not in known}
        left.update(processes_with(f"{cache}/labs/"))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def test_a_lab_is_a_cluster_like_any_other(lab: RunningLab) -> None:
    verdicts = lab.verdicts()
    assert {key for key, verdict in verdicts.items() if verdict == "fail"} == set()
    assert verdicts["mtu_path", "node1/rail0"] == "ok"
    assert verdicts["hostname_unique", "cluster"] == "ok"
    assert verdicts["rendezvous_reachable", "node3"] == "ok"


def mount_accounts(lab: RunningLab, node: str) -> None:
    """Mount a node's accounts if they are not: whoever replaces /etc/passwd here takes them away from all nodes."""
    accounts = lab.cluster.parent / f"{node}.passwd"
    command = f"mountpoint -q /etc/passwd || mount --bind {accounts} /etc/passwd"
    assert lab.run_inside(node, command).code == 0


def test_the_home_of_a_node_is_that_of_the_lab_when_this_machine_gets_an_account(lab: RunningLab) -> None:
    """Training must not write to /root then."""
    lab.run_inside("node1", "umount /etc/passwd")
    assert lab.run_inside("node1", "mountpoint -q /etc/passwd").code != 0
    try:
        assert lab.shell("node1", "cd; pwd").out.strip() == str(lab.cluster.parent / "homes" / "node1")
    finally:
        mount_accounts(lab, "node1")


def test_nodes_have_homes_and_a_plain_login_shell_of_their_own(lab: RunningLab) -> None:
    """The user's start-up files, and what they lock, play no part in a lab."""
    outputs = {}
    for node in ("node1", "node2"):
        mount_accounts(lab, node)  # another test may just have added an account
        outputs[node] = lab.shell(node, "echo $HOME $SHELL; touch ~/$(hostname); ls ~").out
    homes = lab.cluster.parent / "homes"
    assert outputs == {node: f"{homes / node} /bin/sh\n{node}\n" for node in outputs}


def test_discover_writes_the_cluster_file_of_the_lab(lab: RunningLab, tmp_path: Path) -> None:
    hosts = [line.split()[1] for line in lab.cluster.read_text().splitlines() if "host: " in line]
    config = f"login: {{user: root, key: {lab.cluster.parent}/key, known_hosts: {lab.cluster.parent}/known_hosts}}\n"
    seed = tmp_path / "seed.yaml"
    seed.write_text(f"name: seed\n{config}nodes:\n" + "".join(f"  x{n}: {{host: {h}}}\n" for n, h in enumerate(hosts)))
    result = call(tmp_path, "discover", "--cluster", seed, "--json")
    assert result.code == 1, result
    added = {(record["subject"], record["action"]) for record in result.records if record["kind"] == "change"}
    assert added


def discovered(lab: RunningLab, folder: Path, *options: str) -> Result:
    """Discover the lab from its hosts, as a user who only has a key for them."""
    hosts = [line.split()[1] for line in lab.cluster.read_text().splitlines() if "host: " in line]
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "known_hosts").write_bytes((lab.cluster.parent / "known_hosts").read_bytes())
    login = ["--user", "root", "--key", str(lab.cluster.parent / "key")]
    result = railbed(folder, "discover", *hosts, *login, *options, HOME=str(folder))
    assert result.code == 0, result
    return result


@pytest.mark.parametrize(
    ("without_rails", "mtus"),
    [
        pytest.param((), {9000}, id="a management network"),
        pytest.param((4,), {1500, 9000}, id="one node on it alone"),
        pytest.param((1, 2, 3, 4), {1500}, id="one network for all", marks=pytest.mark.soak),
    ],
)
def test_a_healthy_lab_passes_its_check_as_soon_as_it_is_discovered(
    lab: RunningLab, tmp_path: Path, without_rails: tuple[int, ...], mtus: set[int]
) -> None:
    ports = [(n, rail, _rail_address(lab, f"node{n}", rail)) for n in without_rails for rail in ("rail0", "rail1")]
    for number, rail, address in ports:
        assert lab.run_inside(f"node{number}", f"ip addr del {address}/24 dev {rail}").code == 0
    try:
        discovered(lab, tmp_path)
        cluster = clusterfile.load(tmp_path / "cluster.yaml")
        assert {cluster.mtu_of(name) for name in cluster.rails} == mtus
        checked = railbed(tmp_path, "check", "--json", HOME=str(tmp_path))
        assert [finding for finding in checked.findings if finding["verdict"] == "fail"] == []
        assert checked.code == 0
    finally:
        for number, rail, address in ports:
            assert lab.run_inside(f"node{number}", f"ip addr add {address}/24 dev {rail}").code == 0


def test_nodes_have_their_own_name_processes_and_network(lab: RunningLab) -> None:
    result = lab.shell("node2", "hostname; cat /proc/1/comm; ls /sys/class/net; touch /run/of-node2")
    assert result.out.split() == ["node2", "sshd", "eth0", "lo", "rail0", "rail1"]
    assert not Path("/run/of-node2").exists()


def test_who_is_about_to_enter_a_node_belongs_to_it(lab: RunningLab) -> None:
    """A node that is being started is not in its namespace yet; a lab that is taken down meanwhile must find it."""
    stored = next(stored for stored in load_labs() if stored.spec.name == lab.name)
    entering = f"--net={namespace_file(node_namespace(stored, stored.nodes[0]))}"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", entering]) as starting:
        try:
            deadline = time.monotonic() + 10
            while starting.pid not in processes(
                stored, stored.nodes[:1]
            ):  # the kernel shows its arguments a moment later
                assert time.monotonic() < deadline
            assert starting.pid not in processes(stored, stored.nodes[1:])
        finally:
            starting.kill()


def test_words_of_a_command_arrive_as_they_were_given(lab: RunningLab) -> None:
    assert lab.shell("node1", "sh", "-c", "printf '%s.' \"$@\"", "sh", "a  b", "$HOME").out == "a  b.$HOME."


@pytest.mark.parametrize("target", ["node2", "rail0"])
def test_a_cut_is_found_where_it_is(healed: RunningLab, target: str) -> None:
    assert healed.fault("cut", target).code == 0
    cut = {f"node2/{rail}" for rail in ("rail0", "rail1")} if target == "node2" else {f"{node}/rail0" for node in NODES}
    assert healed.failing("link_up") == {("link_up", subject) for subject in cut}
    assert [fault["text"] for fault in healed.status()["faults"]] == ["cut"]
    assert healed.fault("heal", target).code == 0
    assert healed.failing("link_up", "mtu_path") == set()


def test_a_wrong_mtu_is_found_where_it_is(healed: RunningLab) -> None:
    assert healed.fault("mtu", "node1", "1500").code == 0
    findings = healed.railbed("check", "mtu", "mtu_path", "--json").findings
    failing = {(finding["check"], finding["subject"]) for finding in findings if finding["verdict"] == "fail"}
    assert {subject for check, subject in failing if check == "mtu"} == {"node1/rail0", "node1/rail1"}
    (path,) = (finding for finding in findings if (finding["check"], finding["subject"]) == ("mtu_path", "node2/rail0"))
    # On a node that is overloaded, answers that did not come in time prove nothing.
    is_late = "no answer in time, but this node is " in path["observed"]
    assert path["verdict"] == ("unknown" if is_late else "fail"), path


def test_the_fixes_of_findings_repair_the_node_and_their_undo_restores_it(healed: RunningLab) -> None:
    """What `check --json` carries is all it takes: the steps are applied over SSH, saved, and undone."""
    assert healed.fault("mtu", "node1", "1500").code == 0
    broken = [finding for finding in healed.railbed("check", "mtu", "--json").findings if finding["fix"]]
    assert [finding["subject"] for finding in broken] == ["node1/rail0", "node1/rail1"]
    undo: list[Fix] = []

    async def change(fixes: list[Fix]) -> None:
        targets = targets_of(clusterfile.load(healed.cluster))
        async with live_connector() as connect, Fleet(targets, connect) as fleet:
            for fix in fixes:
                await commit(fleet, fix, save=undo.append)

    asyncio.run(change([TypeAdapter(Fix).validate_python(finding["fix"]) for finding in broken]))
    assert healed.railbed("check", "mtu").code == 0
    asyncio.run(change(undo[::-1]))
    assert healed.failing("mtu") == {("mtu", "node1/rail0"), ("mtu", "node1/rail1")}


@pytest.mark.parametrize(
    ("fault", "state"), [("freeze", "frozen"), pytest.param("kill", "off", marks=pytest.mark.soak)]
)
def test_a_node_that_does_not_answer_is_one_finding(healed: RunningLab, fault: str, state: str) -> None:
    assert healed.fault(fault, "node3").code == 0
    assert healed.status()["states"] == {**dict.fromkeys(NODES, "up"), "node3": state}
    verdicts = healed.verdicts("reachable", "kernel_equal", seconds=8)
    # A machine whose own timers are late does not blame the node.
    assert verdicts.pop(("reachable", "node3")) in ("fail", "unknown")
    assert "fail" not in verdicts.values()
    assert healed.fault("heal", "node3").code == 0
    assert healed.failing("reachable") == set()


def test_loss_loses_packets(healed: RunningLab) -> None:
    assert healed.fault("lose", "rail0", "100").code == 0
    assert "100% packet loss" in healed.run_inside("node1", "ping -c 2 -i 0.1 -W 1 node2-rail0").out
    assert " 0% packet loss" in healed.run_inside("node1", "ping -c 2 -i 0.1 -W 1 node2-rail1").out
    assert healed.fault("heal").code == 0
    assert " 0% packet loss" in healed.run_inside("node1", "ping -c 2 -i 0.1 -W 1 node2-rail0").out


RECEIVE = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
receiver.bind(("", 4791))
receiver.settimeout(20)
print("ready", flush=True)
seen = set()
try:
    while True:
        data, ancillary, *_ = receiver.recvmsg(9000, 64)
        seen.add(ancillary[0][2][0])
        receiver.settimeout(3)
except TimeoutError:
    print(sorted(seen))
"""
SEND = """
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)  # ECT(0)
for number in range(200):
    sender.sendto(bytes(8000), ("node1-rail0", 4791))
    time.sleep(0.0005)
"""


@pytest.mark.parametrize(("faults", "codepoints"), [([], "[2]"), ([["mark", "rail0", "1M"]], "[2, 3]")])
def test_marks_are_seen_by_the_receiver(healed: RunningLab, faults: list[list[str]], codepoints: str) -> None:
    """ECT(0) goes out, and what comes faster than the rate arrives as CE."""
    for fault in faults:
        assert healed.fault(*fault).code == 0
    with healed.start_inside("node1", f"python3 -c {shlex.quote(RECEIVE)}") as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        assert healed.run_inside("node2", f"python3 -c {shlex.quote(SEND)}").code == 0
        assert receiver.stdout.read().strip() == codepoints


def test_a_slow_rail_is_slow(healed: RunningLab) -> None:
    """Three megabytes take far longer at 10 Mbit/s than without."""
    assert healed.fault("slow", "rail1", "10M").code == 0
    server = "import socket;s=socket.create_server(('',5001));c,_=s.accept();\nwhile c.recv(65536): pass"
    client = (
        "import socket,time;s=socket.create_connection(('node2-rail1',5001));t=time.time();s.sendall(bytes(3000000));"
        "s.shutdown(1);s.recv(1);print(time.time()-t)"
    )
    listens = "until ss -Hltn | grep -q ':5001 '; do sleep 0.1; done"
    start = f'setsid -f python3 -c "{server}" </dev/null >/dev/null 2>&1; timeout 30 sh -c "{listens}"'
    assert healed.run_inside("node2", start).code == 0
    seconds = float(healed.run_inside("node1", f"python3 -c {shlex.quote(client)}").out)
    assert seconds > 1.5  # 24 Mbit through 10 Mbit/s; without the fault a few milliseconds


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cut", "node9"], "'node9' is not a node or rail"),
        (["slow", "node9", "1G"], "'node9' is not a node or rail"),
        (["slow", "rail0", "fast"], "'fast' is not a rate"),
        (["lose", "rail0", "101"], "at most 100 percent"),
        (["lose", "rail0", "many"], "is not a percentage"),
        (["mtu", "node1", "9"], "an MTU is 68 to 65535"),
        (["freeze", "rail0"], "'rail0' is not a node"),
    ],
)
def test_wrong_faults_are_refused_in_a_sentence(lab: RunningLab, arguments: list[str], sentence: str) -> None:
    result = lab.fault(*arguments)
    assert (result.code, sentence in result.err) == (2, True), result
    assert lab.status()["faults"] == []


def test_a_fault_on_what_is_off_says_so(healed: RunningLab) -> None:
    assert healed.fault("kill", "node1").code == 0
    result = healed.fault("freeze", "node1")
    assert (result.code, "node1 was killed" in result.err) == (2, True)


@pytest.mark.soak  # tests/unit/present/test_alike.py has 64 nodes
def test_many_healthy_nodes_fit_on_one_screen(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--nodes", "12") as many:
        result = many.railbed("check")
    assert result.code == 0, result
    assert result.out.startswith("node1–node12  each of 12: ")
    prompt = 1
    assert len(result.out.splitlines()) + prompt <= 24, result.out


def test_a_name_in_use_is_refused(lab: RunningLab, tmp_path: Path) -> None:
    result = call(tmp_path, "lab", "up", "--name", lab.name)
    assert (result.code, "already" in result.err) == (2, True)
    assert lab.verdicts("reachable")["reachable", "node1"] == "ok"


def test_two_labs_live_side_by_side(lab: RunningLab, tmp_path: Path) -> None:
    with running_lab(tmp_path, "--nodes", "1", "--rate", "10G") as other:
        assert "rate 10Gbit" in other.run_inside("node1", "tc qdisc show dev rail0").out
        assert "unreachable" in other.run_inside("node1", f"ping -c 1 -W 1 {_rail_address(lab)}").err
    assert lab.verdicts("reachable")["reachable", "node1"] == "ok"


def _rail_address(lab: RunningLab, node: str = "node1", rail: str = "rail0") -> str:
    ports = clusterfile.load(lab.cluster).nodes[node].ports
    return next(str(port.address) for port in ports if port.rail == rail)


ENDS = [
    pytest.param(signal.SIGKILL, "progress", marks=pytest.mark.soak),
    pytest.param(signal.SIGKILL, "lab_cabled", marks=pytest.mark.soak),
    (signal.SIGKILL, "lab_node_up"),
    (signal.SIGINT, "lab_cabled"),
    pytest.param(signal.SIGTERM, "lab_node_up", marks=pytest.mark.soak),
]


def down_leaves_nothing(folder: Path, name: str, number: signal.Signals, before: set[str]) -> None:
    """Take down what was killed, or had come up before the signal; only what was there before is left."""
    cache = folder / "cache"
    came_up = any('"up"' in path.read_text() for path in cache.glob("labs/*/lab.json"))
    if number == signal.SIGKILL or came_up:
        railbed(folder, "lab", "down", "--name", name, RAILBED_CACHE=str(cache))
    assert left_behind(cache, before) == set()


@pytest.mark.parametrize(("number", "event"), ENDS)
def test_an_up_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals, event: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    before = networks()
    end_up_at(event, number, tmp_path, "--nodes", "4", "--name", "ended", RAILBED_CACHE=str(tmp_path / "cache"))
    down_leaves_nothing(tmp_path, "ended", number, before)


def test_a_down_that_is_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    assert attack(LabDownKilled(tmp_path), kills=1, seed=1) == []


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("tenths", [4, 6, 7, 8, 9, 11, 13])
def test_an_up_that_is_ended_at_any_moment_leaves_nothing(tmp_path: Path, number: signal.Signals, tenths: int) -> None:
    before = networks()
    process = subprocess.Popen(
        [RAILBED, "lab", "up", "--nodes", "6", "--name", "ended"],
        cwd=tmp_path,
        env=environment(RAILBED_CACHE=str(tmp_path / "cache")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads)
    )
    time.sleep(tenths / 10)
    process.send_signal(number)
    process.wait(timeout=60)
    down_leaves_nothing(tmp_path, "ended", number, before)
