"""TCP between two network namespaces that lose packets: the kernel's counts are exact nevertheless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.netns]
ROOT = Path(__file__).parent.parent
SENT = 3_000_000
ENOUGH = 10
"""Segments sent again, by as many connections as that takes: each learns in a few seconds how late answers come."""
MOST_SECONDS = 240.0
SETUP = """
set -e
ip link set lo up
ip link add rail0 type veth peer name rail0 netns "$1"
ip addr add 10.77.0.1/24 dev rail0
ip link set rail0 up
ethtool -K rail0 tso off gso off >/dev/null
nsenter -t "$1" -n sh -ec '
  ip addr add 10.77.0.2/24 dev rail0
  ip link set rail0 up
  eval "$1"' sh "$4"
exec "$2" -c "$3" "$1"
"""
LOSE = """
nft "add table t; add chain t c { type filter hook input priority 0; };
     add rule t c tcp dport 5999 numgen random mod 25 == 0 drop"
"""
ANSWER_LATE = """
limit() { tc qdisc change dev rail0 root tbf rate "$1" burst 2000 limit 1000000; }
tc qdisc add dev rail0 root tbf rate 1gbit burst 2000 limit 1000000
(while sleep 0.5 && limit 8kbit && sleep 0.5 && limit 1gbit; do :; done) >/dev/null 2>&1 &
"""
SENDER = f"""
import json, os, socket, subprocess, sys
from railbed.train.network.connections import connections
from railbed.train.worker.observe.connections import Watch, take_snapshot
from railbed.train.worker.observe.counters import data_segments
SINK = '''
import socket
server = socket.create_server(("10.77.0.2", 5999))
print("ready", flush=True)
taken, left = server.accept()[0], {SENT}
while left:
    left -= len(taken.recv(min(left, 65536)))
taken.sendall(b"!")
taken.recv(1)
'''
command = ["nsenter", "-t", sys.argv[1], "-n", sys.executable, "-c", SINK]
sink = subprocess.Popen(command, stdout=subprocess.PIPE)
sink.stdout.readline()
watch = Watch(lambda: take_snapshot([os.getpid()]), data_segments)
watch.open()
sender = socket.create_connection(("10.77.0.2", 5999))
sender.sendall(bytes({SENT}))
sender.recv(1)
again = sum(one.again for one in connections())
print(json.dumps({{**watch.read(), "again": again}}))
sender.close()
sink.wait(30)
"""
COUNTER = f"""
import json, socket, subprocess, sys, time
from railbed.fleet.sample.node.files import Host
from railbed.fleet.sample.node.sockets import TcpSockets
SINK = '''
import socket, threading
def read(taken):
    while taken.recv(65536):
        pass
server = socket.create_server(("10.77.0.2", 5999))
print("ready", flush=True)
while True:
    threading.Thread(target=read, args=(server.accept()[0],), daemon=True).start()
'''
command = ["nsenter", "-t", sys.argv[1], "-n", sys.executable, "-c", SINK]
sink = subprocess.Popen(command, stdout=subprocess.PIPE)
sink.stdout.readline()
listed, host, senders = TcpSockets(), Host(), []
begun = time.monotonic()
while time.monotonic() - begun < {MOST_SECONDS}:
    sender = socket.create_connection(("10.77.0.2", 5999))
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    senders.append(sender)
    for _ in range(150):
        sender.sendall(bytes(500))
        time.sleep(0.01)
    listed.refresh()
    if sum(link.again for link in listed.all) >= {ENOUGH}:
        break
time.sleep(2)
listed.refresh()
again, needless = sum(link.again for link in listed.all), sum(link.needless for link in listed.all)
of_node = dict(zip(host.names, host.read()))
print(json.dumps([again, needless, of_node["tcp_retransmits"], of_node["tcp_needless"]]))
sink.kill()
sink.wait()
"""


def run_between_namespaces(program: str, fault: str) -> Any:
    """Run a program that sends to another namespace, in which a command makes the network worse; return its output."""
    with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 400"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            done = subprocess.run(
                ["unshare", "-n", "sh", "-c", SETUP, "sh", str(other.pid), sys.executable, program, fault],
                capture_output=True,
                timeout=300,
                check=False,
                text=True,
                cwd=ROOT,
            )
        finally:
            other.kill()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nftables")
def test_bytes_that_were_sent_again_count_once() -> None:
    counted = run_between_namespaces(SENDER, LOSE)
    assert counted["again"] > 10
    assert counted["ranks"] == {"rail0": SENT}
    assert (counted["others"], counted["unclear"]) == ({}, 0)
    # Every segment with data is accounted for; a handshake that was sent again may seem to be one that is not.
    early, late = counted["node_segments"]
    assert early == late
    assert 0 <= early - counted["segments"] <= 5


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nftables")
@pytest.mark.parametrize(("fault", "needless"), [(LOSE, (0.0, 0.5)), (ANSWER_LATE, (0.8, 1.0))], ids=["lost", "late"])
def test_what_is_sent_again_needlessly_is_counted_apart(fault: str, needless: tuple[float, float]) -> None:
    """Acknowledgements that are late are no loss: the receiver reports what it has twice."""
    again, had_arrived, again_by_node, had_arrived_by_node = run_between_namespaces(COUNTER, fault)
    assert again >= ENOUGH
    assert needless[0] <= had_arrived / again <= needless[1]
    assert needless[0] <= had_arrived_by_node / again_by_node <= needless[1]
