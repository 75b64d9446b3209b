"""A lab of virtual machines: real RoCEv2 between nodes, verbs on it, its faults, and that it leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

import pytest

from railbed import clusterfile
from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, cache_variables, call, end_up_at, running_lab

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
ON_RAIL = "-d rxe0 -x 1 -F -u 20"
"""Options of perftest: Soft-RoCE, RoCEv2 over IPv4, no check of the processor's clock, and late answers."""
CLOCK_ERROR, CLOCK_QUESTIONS = 0.05, 20


@pytest.fixture
def lab(vm_lab: RunningLab) -> RunningLab:
    return vm_lab


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


def between(lab: RunningLab, server: str, client: str) -> str:
    """Run a client on node2 against a server on node1; return the output of the client."""
    port = 5201 if server.startswith("iperf3") else 18515
    with lab.in_background("node1", server, f"ss -Hltn | grep -q ':{port} '"):
        result = lab.run_inside("node2", f"timeout 90 {client}")
    assert result.code == 0, result
    return result.out


def counters(lab: RunningLab, node: str) -> dict[str, int]:
    words = lab.run_inside(node, "rdma statistic show link rxe0/1").out.split()[2:]
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def processes(lab: str) -> list[str]:
    """Return the command lines of a lab's machines and hubs, which run in its folder even when that is removed."""
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = process.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
            ours = arguments[0].startswith("qemu-system") or "railbed.lab.vm.qemu.hub" in arguments
            if ours and process.joinpath("cwd").readlink().name.removesuffix(" (deleted)") == lab:
                running.append(" ".join(arguments))
    return running


def test_check_finds_rdma_and_skips_what_soft_roce_lacks(lab: RunningLab) -> None:
    right = ("rdma_device", "rdma_port_active", "gid_rocev2", "mtu", "mtu_path", "rdma_mtu", "link_up")
    result = lab.railbed("check", *right, "dcqcn", "hostname_unique", "--json", "--timeout", "300")
    verdicts = {(finding["check"], finding["subject"]): finding["verdict"] for finding in result.findings}
    assert {key for key, verdict in verdicts.items() if verdict == "fail"} == set()
    for rule in right:
        assert verdicts[rule, "node1/rail0"] == verdicts[rule, "node2/rail1"] == "ok", rule
    assert verdicts["dcqcn", "node1/rail0"] == "skipped"
    assert verdicts["hostname_unique", "cluster"] == "ok"


@pytest.mark.soak
def test_discover_finds_devices_and_rails(lab: RunningLab, tmp_path: Path) -> None:
    hosts = [node.host for node in clusterfile.load(lab.cluster).nodes.values()]
    files = lab.cluster.parent
    login = f"login: {{user: root, port: 2222, key: {files}/key, known_hosts: {files}/known_hosts}}\n"
    seed = tmp_path / "seed.yaml"
    seed.write_text(f"name: seed\n{login}nodes:\n" + "".join(f"  x{n}: {{host: {h}}}\n" for n, h in enumerate(hosts)))
    result = call(tmp_path, "discover", "--cluster", seed, "--json", "--timeout", "300")
    assert result.code == 1, result
    added = " ".join(str(record.get("after", "")) for record in result.records if record["kind"] == "change")
    for word in ("rxe0", "rxe1", "rail0", "rail1"):
        assert word in added, result.out


@pytest.mark.soak
def test_rdma_runs_between_nodes_and_is_counted(lab: RunningLab) -> None:
    before = counters(lab, "node2")
    written = between(lab, f"ib_write_bw {ON_RAIL} -n 100", f"ib_write_bw {ON_RAIL} -n 100 node1")
    assert re.search(r"^ 65536 +100 ", written, re.MULTILINE), written
    # 100 writes of 64 KiB, in packets of 4096 bytes.
    assert counters(lab, "node2")["sent_pkts"] - before["sent_pkts"] >= 100 * 16
    write = between(lab, f"ib_write_lat {ON_RAIL} -n 100", f"ib_write_lat {ON_RAIL} -n 100 node1")
    assert re.search(r"^ 2 +100 ", write, re.MULTILINE), write
    sent = between(lab, f"ib_send_lat -c UD {ON_RAIL} -n 100", f"ib_send_lat -c UD {ON_RAIL} -n 100 node1")
    assert re.search(r"^ 2 +100 ", sent, re.MULTILINE), sent


@pytest.mark.soak
def test_tcp_runs_between_nodes(lab: RunningLab) -> None:
    assert "receiver" in between(lab, "iperf3 -s -1", "iperf3 -c node1-rail1 -t 2 -f m")


def test_nodes_are_themselves_and_reach_nothing_else(lab: RunningLab) -> None:
    command = (
        "hostname; cat /etc/machine-id /proc/sys/kernel/random/uuid; ls /sys/class/net | xargs;"
        " systemctl --failed --no-legend | wc -l;"
        ' for a in 1.1.1.1 10.0.2.2; do timeout 5 bash -c "echo > /dev/tcp/$a/22" 2>/dev/null && echo out; done; true'
    )
    first = lab.shell("node1", command).out.splitlines()
    second = lab.run_inside("node2", command).out.splitlines()
    assert (first[0], second[0]) == ("node1", "node2")
    assert first[1] != second[1]
    assert first[2] != second[2]
    assert first[3:] == second[3:] == ["lo mgmt0 rail0 rail1", "0"]
    assert_clock_is_right(lab, "node1")


def assert_clock_is_right(lab: RunningLab, node: str) -> None:
    """Compare a node's clock with this machine's: an answer is between question and arrival."""
    assert lab.connections
    least, most = -inf, inf
    with lab.connections.start(node, "while read -r _; do echo $EPOCHREALTIME; done") as clock:
        assert clock.stdin is not None
        assert clock.stdout is not None
        for _ in range(CLOCK_QUESTIONS):
            before = time.time()
            print("?", file=clock.stdin, flush=True)
            answer = float(clock.stdout.readline())
            least, most = max(least, answer - time.time()), min(most, answer - before)
        clock.stdin.close()
    assert least < CLOCK_ERROR, f"{node} is ahead by at least {least:.3f} s"
    assert most > -CLOCK_ERROR, f"{node} is behind by at least {-most:.3f} s"


@pytest.mark.soak  # test_lab_netns.py has it on namespaces
def test_a_wrong_mtu_and_a_cut_rail_are_found_where_they_are(healed: RunningLab) -> None:
    assert healed.fault("mtu", "node1", "1500").code == 0
    assert healed.fault("cut", "rail1").code == 0
    assert healed.failing("mtu", "link_up") == {
        ("mtu", "node1/rail0"),
        ("mtu", "node1/rail1"),
        ("link_up", "node1/rail1"),
        ("link_up", "node2/rail1"),
    }


@pytest.mark.soak
def test_a_cut_node_is_found(healed: RunningLab) -> None:
    assert healed.fault("cut", "node2").code == 0
    assert healed.failing("link_up") == {("link_up", "node2/rail0"), ("link_up", "node2/rail1")}


@pytest.mark.soak
def test_loss_loses_packets(healed: RunningLab) -> None:
    assert healed.fault("lose", "rail0", "100").code == 0
    ping = "ping -c 2 -i 0.2 -W 2"
    output = healed.run_inside("node1", f"{ping} node2-rail0; {ping} node2-rail1; true").out
    assert ("100% packet loss" in output, " 0% packet loss" in output) == (True, True), output


@pytest.mark.soak  # test_lab_netns.py has it with UDP
def test_marks_are_made_by_a_queue_and_seen_by_the_receiver(healed: RunningLab) -> None:
    """RoCEv2 goes out as ECT(0), and CE arrives; the queue counts what it marked."""
    assert healed.fault("mark", "rail0", "2M").code == 0  # slower than any machine emulates
    dump = "tcpdump -i rail0 -nn -v -c 200 'udp port 4791' 2>/dev/null | grep -o 'tos 0x[0-9a-f]*' | sort | uniq -c"
    listens = "[ $(wc -l </proc/net/packet) -gt 1 ]"
    with healed.in_background("node1", f'sh -c "{dump}"', listens) as captured:
        options = f"{ON_RAIL} --tclass=106 -n 20"
        between(healed, f"ib_write_bw {options}", f"ib_write_bw {options} node1")
        assert captured.stdout is not None
        classes = captured.stdout.read()
    assert "tos 0x6b" in classes, classes
    queue = healed.run_inside("node2", "tc -s qdisc show dev rail0").out
    marked = re.search(r"marked (\d+)", queue)
    assert marked, queue
    assert int(marked[1]) > 0


def test_faults_are_those_of_the_devices_and_a_frozen_node_continues_with_the_right_time(healed: RunningLab) -> None:
    """A fault that came while a node was frozen is in force on it."""
    assert healed.fault("freeze", "node2").code == 0
    assert healed.status()["states"] == {"node1": "up", "node2": "frozen", "nexus": "up"}
    assert healed.fault("cut", "rail1").code == 0
    assert healed.fault("heal", "node2").code == 0
    assert_clock_is_right(healed, "node2")
    assert "state DOWN" in healed.run_inside("node2", "rdma link show rxe1/1").out


def test_a_frozen_node_continues_with_the_right_time_at_every_phase_of_a_second(healed: RunningLab) -> None:
    for phase in (0.1, 0.4, 0.7):
        assert healed.fault("freeze", "node1").code == 0
        time.sleep((phase - time.time()) % 1)
        assert healed.fault("heal", "node1").code == 0
        assert_clock_is_right(healed, "node1")


@pytest.mark.soak  # test_lab_netns.py has it on namespaces
def test_a_fault_ends_alone_and_what_a_card_refuses_is_reported(healed: RunningLab) -> None:
    assert healed.fault("mtu", "node1", "1500").code == 0
    assert healed.fault("cut", "rail1").code == 0
    assert "mtu 1500 " in healed.run_inside("node1", "ip link show rail0").out
    refused = healed.fault("mtu", "node2", "9500")
    assert (refused.code, "greater than device maximum" in refused.err) == (3, True), refused
    assert healed.fault("heal", "rail1").code == 0
    assert "state ACTIVE" in healed.run_inside("node2", "rdma link show rxe1/1").out
    assert {fault["target"] for fault in healed.status()["faults"]} == {"node1"}


@pytest.mark.soak
def test_three_nodes_without_training_share_a_rail_through_a_hub(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--kind", "vm", "--nodes", "3", "--rate", "1G", "--delay", "1ms") as lab:
        output = lab.run_inside(
            "node3",
            "for n in node1 node2; do ping -c 3 -i 0.2 -W 2 -M do -s 8000 $n; done; tc qdisc; ls /sys/class/net",
        ).out
        assert output.count(" 0% packet loss") == 2, output
        assert ("delay 1ms" in output, "rate 1Gbit" in output, "rail1" in output) == (True, True, False), output
        between(lab, f"ib_send_bw {ON_RAIL} -n 50", f"ib_send_bw {ON_RAIL} -n 50 node1")
        assert lab.fault("cut", "node3").code == 0
        assert lab.failing("link_up") == {("link_up", "node3/rail0")}
        assert " 0% packet loss" in lab.run_inside("node1", "ping -c 2 -i 0.2 -W 2 node2").out


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--nodes", "17"], 2, "at most 16 nodes"),
        (["--rails", "3"], 2, "at most 2 rails"),
        (["--nodes", "16", "--memory", "900000"], 3, "MB of memory"),
        (["--memory", "8"], 2, "at least 256 MB"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    lab: RunningLab, tmp_path: Path, options: list[str], code: int, sentence: str
) -> None:
    result = call(tmp_path, "lab", "up", "--kind", "vm", "--name", "toomuch", *options)
    assert (result.code, sentence in result.err) == (code, True), result
    assert "toomuch" not in call(tmp_path, "lab", "status").out
    assert lab.status()["faults"] == []


@pytest.mark.parametrize(
    ("number", "event"),
    [
        (signal.SIGKILL, "lab_node_booted"),
        pytest.param(signal.SIGKILL, "progress", marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, "lab_node_booted", marks=pytest.mark.soak),
        pytest.param(signal.SIGKILL, "lab_node_up", marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, "progress", marks=pytest.mark.soak),
    ],
)
def test_an_up_that_is_ended_leaves_nothing(
    lab: RunningLab, tmp_path: Path, number: signal.Signals, event: str
) -> None:
    assert len(processes(lab.name)) >= 2, lab
    name = f"ended-{number}-{event}"
    options = ("--kind", "vm", "--nodes", "1", "--with", "training", "--name", name)
    end_up_at(event, number, tmp_path, *options, **cache_variables())
    if number == signal.SIGKILL:
        call(tmp_path, "lab", "down", "--name", name)
    assert processes(name) == []
    assert name not in call(tmp_path, "lab", "status").out


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_runs_through_sudo_ends_with_railbed(lab: RunningLab, tmp_path: Path, number: signal.Signals) -> None:
    """A login that is not root, a root probe that hangs, and a railbed that is killed: nothing is left on the node."""
    prepare = (
        "id ops >/dev/null 2>&1 || useradd -m -s /bin/bash ops; usermod -p '*' ops; install -d -o ops ~ops/.ssh; "
        "install -o ops ~/.ssh/authorized_keys ~ops/.ssh/; echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops; "
        r"printf '#!/bin/sh\n: >/run/hangs\nexec sleep 300\n' >/usr/local/sbin/nft; chmod +x /usr/local/sbin/nft"
    )
    assert lab.shell("node1", prepare).code == 0
    cluster = tmp_path / "ops.yaml"
    cluster.write_text(lab.cluster.read_text().replace("user: root", "user: ops"))
    command = [RAILBED, "check", "firewall", "--cluster", str(cluster), "--json", "--timeout", "600"]
    # Waited for on the node: from here, where each command takes seconds, the probe's time could run out meanwhile.
    hangs = "timeout 150 sh -c 'until [ -e /run/hangs ]; do sleep 0.2; done' && rm /run/hangs"
    ended = "timeout 30 sh -c \"while pgrep -fx 'sleep 300'; do sleep 0.5; done\""
    try:
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment(**cache_variables()), stdout=subprocess.DEVNULL
        ) as check:
            assert lab.shell("node1", hangs).code == 0
            check.send_signal(number)
        assert lab.shell("node1", ended).code == 0
    finally:
        lab.shell("node1", "rm /usr/local/sbin/nft")
