"""The recorder that nodes run, on this machine's loopback: UDP to port 4791 stands in for RoCEv2."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.ranks import wait_for

from railbed.capture.node import tcpdump as folders
from railbed.capture.remote import FILTER, NEEDS_RIGHTS, RECORDER, explain
from railbed.fleet.node_program import FETCH

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
ORDER = {"filter": FILTER, "snap": 128, "bytes": 2_000_000, "packets": 0, "buffer_kb": 2048}
PORT = {"key": "lo", "source": "lo", "nanoseconds": True}


@pytest.fixture(autouse=True)
def _possible() -> None:
    if os.geteuid() != 0 or not shutil.which("tcpdump"):
        pytest.skip("recording packets needs root and tcpdump")


class Recorder:
    """A recorder, and its lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self.pid = int(self.until("h").split()[1])

    def send(self, text: bytes) -> None:
        self._stdin.write(text)
        self._stdin.flush()

    def line(self) -> str:
        return self._stdout.readline().decode().rstrip("\n")

    def until(self, kind: str) -> str:
        """Return the next line of a kind, without its first word."""
        while line := self.line():
            word, _, rest = line.partition(" ")
            if word == kind:
                return rest
        raise AssertionError(f"it ended without {kind!r}")

    @property
    def tcpdump(self) -> tuple[int, Path]:
        """Return its process, and the folder it writes to; other tests of this machine have their own."""
        (child,) = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[1:])
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        return child, Path(words[words.index("-w") + 1]).parent

    def file(self) -> bytes:
        return self._stdout.read(int(self.until("d").split()[-1]))

    def close(self) -> None:
        self._stdin.close()


@contextmanager
def recorder(*, text: bytes = RECORDER.text, prefix: tuple[str, ...] = (), **changes: Any) -> Iterator[Recorder]:
    """Start a recorder as a node does."""
    order = json.dumps({**ORDER, "ports": [PORT], **changes}).encode() + b"\n"
    command = [*prefix, sys.executable, "-I", "-S", "-B", "-c", FETCH.format(size=len(text))]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-3) as process:
        assert process.stdin is not None
        process.stdin.write(text + order + b"p 1\n")
        process.stdin.flush()
        running = Recorder(process)
        try:
            yield running
        finally:
            process.kill()


def send(packets: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for port in (4790, 4791):
            for _ in range(packets):
                sender.sendto(bytes(1000), ("127.0.0.1", port))


def test_packets_are_recorded_counted_and_sent_and_nothing_is_left() -> None:
    with recorder() as running:
        running.until("y")
        _, folder = running.tcpdump
        assert folder.stat().st_mode & 0o777 == 0o700
        running.send(b"g\n")
        send(50)
        running.send(b"s\nf\n")
        counts = json.loads(running.until("t"))["ports"]["lo"]
        data = running.file()
        assert running.until("z") == ""
    assert (counts["captured"], counts["dropped"], counts["reason"]) == (50, 0, "")
    assert (data[:4], len(data)) == (b"\x4d\x3c\xb2\xa1", 24 + 50 * (16 + 128)), "nanoseconds, headers only"
    assert not folder.exists()


def test_a_ring_of_files_has_the_newest_packets() -> None:
    with recorder(snap=1000, buffer_kb=16384) as running:
        running.until("y")
        running.send(b"g\n")
        send(5000)
        running.send(b"s\nf\n")
        counts = json.loads(running.until("t"))["ports"]["lo"]
        running.send(b"".join(b"p %d\n" % number for number in range(100)))
        data = running.file()
        assert running.until("z") == "", "heartbeats are answered before or after a file, not within"
    assert counts["captured"] == 5000
    assert 1_000_000 <= len(data) <= 2_100_000
    assert (len(data) - 24) % (16 + 1000) == 0, "files are joined between two packets"
    assert (set(data[32::1016]), set(data[33::1016])) == ({1000 % 256}, {1000 // 256}), "lengths are where they belong"


def test_a_port_ends_by_itself_after_so_many_packets() -> None:
    with recorder(packets=7) as running:
        running.until("y")
        running.send(b"g\n")
        send(20)
        wait_for(lambda: json.loads(running.until("n"))["ports"]["lo"]["ended"])
        running.send(b"s\nf\n")
        counts = json.loads(running.until("t"))["ports"]["lo"]
    assert (counts["captured"], counts["reason"]) == (7, "")


@pytest.mark.parametrize("end", ["input", "killed"])
def test_nothing_is_left_however_it_ends(end: str) -> None:
    with recorder() as running:
        running.until("y")
        tcpdump, folder = running.tcpdump
        assert folders.users_of(str(folder)) == [tcpdump]
        if end == "input":
            running.close()
        else:
            os.kill(running.pid, signal.SIGKILL)
        wait_for(lambda: not folder.exists() and not folders.users_of(str(folder)))


def test_it_ends_when_its_input_falls_silent() -> None:
    quick = RECORDER.text.replace(b"LEASE_SECONDS = 120, 90", b"LEASE_SECONDS = 120, 5")
    assert quick != RECORDER.text
    with recorder(text=quick) as running:
        running.until("y")
        _, folder = running.tcpdump
        wait_for(lambda: not folder.exists())


def test_a_folder_that_outlived_a_power_cut_is_removed() -> None:
    old, new = (Path(folders.PLACES[0]) / f"{folders.PREFIX}test-{name}" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
    os.utime(old, (0, 0))
    try:
        with recorder() as running:
            running.until("y")
            assert (old.exists(), new.exists()) == (False, True), "the other may just have been created"
    finally:
        new.rmdir()


def test_tcpdump_that_is_killed_is_a_reason() -> None:
    with recorder() as running:
        running.until("y")
        running.send(b"g\n")
        os.kill(running.tcpdump[0], signal.SIGKILL)
        wait_for(lambda: json.loads(running.until("n"))["ports"]["lo"]["ended"])
        running.send(b"s\nf\n")
        counts = json.loads(running.until("t"))["ports"]["lo"]
    assert counts["reason"] == "tcpdump was killed by signal 9"
    assert "captured" not in counts


def test_a_full_disk_is_a_reason() -> None:
    with recorder(bytes=10**18) as running:
        assert "MB free, and recording needs" in running.until("e")
    full = RECORDER.text.replace(b"< RESERVE_BYTES // 2", b"< 10**18")
    assert full != RECORDER.text
    with recorder(text=full) as running:
        running.until("y")
        running.send(b"g\n")
        wait_for(lambda: json.loads(running.until("n"))["ports"]["lo"]["ended"])
        running.send(b"s\nf\n")
        assert json.loads(running.until("t"))["ports"]["lo"]["reason"] == "the disk of /var/tmp is full"


def test_what_is_missing_without_root_is_one_sentence() -> None:
    with recorder(prefix=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")) as running:
        assert explain(running.until("e")) == NEEDS_RIGHTS


def test_an_interface_that_is_not_there_is_named() -> None:
    with recorder(ports=[{**PORT, "key": "rail7", "source": "rail7"}]) as running:
        assert running.until("e").startswith("rail7: rail7: No such device exists")
