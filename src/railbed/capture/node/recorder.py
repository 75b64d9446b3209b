"""The recorder: runs tcpdump on the ports of this node, keeps its files in a private folder, and sends them back.

Input, one line each: the order as JSON, then `p NUMBER` as a heartbeat, `g` when all nodes are ready, `s` to stop, and
`f` to send the files. Output: `h VERSION PID` at the start, `y` when every tcpdump listens, `n JSON` with packets and
bytes every second, `t JSON` with the final counts, `d KEY SIZE` followed by so many bytes for each port, `z` at the
end, when nothing is left here, `q NUMBER` as the answer to a heartbeat unless that arrives within a file, and `e TEXT`
before it ends by a fault.

It ends with its input, and so does everything it started. If its input falls silent, as after a power cut at the other
end, the kernel ends it, and the janitor cleans up: the heartbeats renew an alarm.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from typing import Any

from railbed.capture.node import tcpdump
from railbed.capture.node import tcpdump as folders

VERSION = 1
START_SECONDS, LEASE_SECONDS = 120, 90
LISTEN_SECONDS = 60.0
"""How long tcpdump may take to start: an emulated machine is slow."""
DRAIN_SECONDS = 1.2
"""The kernel hands packets over once a second: what tcpdump has not read when it is stopped would be lost."""
ENDING_SECONDS = 20.0
REPORT_SECONDS = 1.0
LOOK_SECONDS = 0.1
RESERVE_BYTES = 64_000_000
"""Left free on the disk. tcpdump does not notice a full one."""
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RecordingRefused(Exception):
    """This node cannot record; the text is the reason."""


class Recorder:
    """The loop: answers heartbeats, follows tcpdump, and obeys."""

    def __init__(self) -> None:
        self._input = b""
        self._order = json.loads(self._line())
        self._order["tcpdump"] = shutil.which("tcpdump", path=f"{os.environ.get('PATH', '')}:{SEARCH}")
        self._children: list[tcpdump.Tcpdump] = []
        self._wishes: list[bytes] = []
        self._full = ""
        self._sending = False
        """Inside a file, which an answer to a heartbeat would damage."""
        self._began = self._ended = 0

    def run(self) -> None:
        """Record until told to stop, and send the files."""
        write(f"h {VERSION} {os.getpid()}")
        if not self._order["tcpdump"]:
            raise RecordingRefused("tcpdump is not installed")
        self._folder = folders.make_folder()
        try:
            self._need_room()
            self._listen()
            self._record()
            self._send()
        finally:
            for child in self._children:
                child.kill()
            folders.remove(self._folder)
        write("z")

    def _need_room(self) -> None:
        needed = self._order["bytes"] * len(self._order["ports"]) + RESERVE_BYTES
        free = free_bytes(self._folder)
        if free < needed:
            place = os.path.dirname(self._folder)
            raise RecordingRefused(f"{place} has {free // 10**6} MB free, and recording needs {needed // 10**6} MB")

    def _listen(self) -> None:
        """Start tcpdump on every port; all must listen before anybody begins."""
        for number, port in enumerate(self._order["ports"]):
            self._children.append(tcpdump.Tcpdump({**port, "number": number}, self._order, self._folder))
        deadline = time.monotonic() + LISTEN_SECONDS
        while not all(child.listening for child in self._children):
            # A tcpdump that ended just before has nothing more to say: do not wait for it.
            self._serve(LOOK_SECONDS)
            for child in self._children:
                if child.ended and not child.listening:
                    raise RecordingRefused(f"{child.key}: {child.reason or child.message}")
            if time.monotonic() > deadline:
                raise RecordingRefused(f"tcpdump does not start within {LISTEN_SECONDS:g} s")
        write("y")
        self._await(b"g")
        self._began = time.time_ns()

    def _record(self) -> None:
        """Follow tcpdump until we are told to stop, then let it end; a port may end earlier."""
        report = time.monotonic() + REPORT_SECONDS
        while not self._is_wished(b"s"):
            self._serve(report - time.monotonic())
            if time.monotonic() >= report:
                report += REPORT_SECONDS
                self._report()
        self._ended = time.time_ns()
        self._serve_for(DRAIN_SECONDS)
        self._stop()
        deadline = time.monotonic() + ENDING_SECONDS
        while not all(child.ended for child in self._children) and time.monotonic() < deadline:
            self._serve(LOOK_SECONDS)
        for child in self._children:
            child.kill()
        write("t " + json.dumps({"began": self._began, "ended": self._ended, "ports": self._totals()}))

    def _stop(self) -> None:
        for child in self._children:
            child.stop()

    def _report(self) -> None:
        if not self._full and free_bytes(self._folder) < RESERVE_BYTES // 2:
            self._full = f"the disk of {os.path.dirname(self._folder)} is full"
            self._stop()
        state = {
            child.key: {
                "packets": child.packets,
                "bytes": child.written,
                "ended": child.ended,
                "reason": self._why(child),
            }
            for child in self._children
        }
        write("n " + json.dumps({"ports": state}))

    def _totals(self) -> dict[str, Any]:
        return {child.key: {**child.counts, "reason": self._why(child), "size": child.size} for child in self._children}

    def _why(self, child: tcpdump.Tcpdump) -> str:
        return child.reason or self._full

    def _send(self) -> None:
        self._await(b"f")
        for child in self._children:
            write(f"d {child.key} {child.size}")
            self._sending = True
            child.send_files(self._send_some)
            self._sending = False

    def _send_some(self, data: bytes) -> None:
        write_all(data)
        self._serve(0.0)

    def _await(self, wish: bytes) -> None:
        while not self._is_wished(wish):
            self._serve(60.0)

    def _is_wished(self, wish: bytes) -> bool:
        if wish in self._wishes:
            self._wishes.remove(wish)
            return True
        return False

    def _serve_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._serve(deadline - time.monotonic())

    def _serve(self, seconds: float) -> None:
        """Wait for input or for tcpdump, at most so long, and take what there is."""
        running = [child for child in self._children if not child.ended]
        ready = select.select([0, *(child.fileno() for child in running)], [], [], max(0.0, seconds))[0]
        if 0 in ready:
            self._receive()
        for child in running:
            if child.fileno() in ready:
                child.receive()
        while b"\n" in self._input:
            self._obey(self._line())

    def _obey(self, line: bytes) -> None:
        if line.startswith(b"p "):
            if not self._sending:
                write(f"q {int(line[2:])}")
            signal.alarm(LEASE_SECONDS)
        else:
            self._wishes.append(line)

    def _receive(self) -> None:
        data = os.read(0, 65536)
        if not data:
            raise SystemExit
        self._input += data

    def _line(self) -> bytes:
        while b"\n" not in self._input:
            self._receive()
        line, _, self._input = self._input.partition(b"\n")
        return line


def free_bytes(path: str) -> int:
    """Return the free space of a file system."""
    about = os.statvfs(path)
    return about.f_bavail * about.f_frsize


def write(line: str) -> None:
    """Write a line to standard output."""
    write_all(line.encode() + b"\n")


def write_all(data: bytes) -> None:
    """Write bytes to standard output."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def describe(fault: Exception) -> str:
    """Return what went wrong, in a sentence if it is not our fault."""
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return str(fault) if isinstance(fault, RecordingRefused) else f"{type(fault).__name__}: {fault}"


def main() -> None:
    """Run until the input ends; report a fault in one line."""
    signal.alarm(START_SECONDS)
    try:
        Recorder().run()
    except (BrokenPipeError, SystemExit):
        return
    except Exception as fault:
        text = describe(fault)
        try:
            write(f"e {text}".replace("\n", " "))
        except OSError:
            return
