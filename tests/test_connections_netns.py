"""TCP between two network namespaces that lose packets: the kernel's counts are exact nevertheless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.netns]
ROOT = Path(__file__).parent.parent
SENT = 3_000_000
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
  nft "add table t; add chain t c { type filter hook input priority 0; };
       add rule t c tcp dport 5999 numgen random mod 25 == 0 drop"'
exec "$2" -c "$3" "$1"
"""
SENDER = f"""
import json, os, socket, subprocess, sys
from railbed.train.network.netlink import connections
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


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nftables")
def test_bytes_that_were_sent_again_count_once() -> None:
    with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 100"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            done = subprocess.run(
                ["unshare", "-n", "sh", "-c", SETUP, "sh", str(other.pid), sys.executable, SENDER],
                capture_output=True,
                timeout=90,
                check=False,
                text=True,
                cwd=ROOT,
            )
        finally:
            other.kill()
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["again"] > 10
    assert counted["ranks"] == {"rail0": SENT}
    assert (counted["others"], counted["unclear"]) == ({}, 0)
    # Every segment with data is accounted for; a handshake that was sent again may seem to be one that is not.
    early, late = counted["node_segments"]
    assert early == late
    assert 0 <= early - counted["segments"] <= 5
