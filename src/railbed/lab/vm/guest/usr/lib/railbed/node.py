"""Runs on a node: `node.py identity` waits for the disk with its identity, `node.py clock` sets the clock.

It uses the standard library only. The disk is a tar archive without a file system; the host fills it before it resumes
the saved machine, so it is read past all caches.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import mmap
import os
import socket
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

DONE = Path("/etc/railbed/done")
SERIAL = "identity"
BLOCK = 1 << 20
RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
# Run once before the machine is saved, so that what they read is in its memory.
WARM_UP = (
    "networkctl reload",
    "rdma link",
    "rdma statistic",
    "tc qdisc",
    "ip -j addr",
    "ssh-keyscan -t ed25519 127.0.0.1",
    "bash -c 'sleep 0.01'",
)
WARM = Path("/opt/training/bin/python3")
WARM_SECONDS = 600.0
# QEMU answers each line sent here with the host's time: see `_network` in qemu/hardware.py.
CLOCK = ("10.0.2.4", 37)
CLOCK_SECONDS = 60.0
CLOCK_QUESTIONS, CLOCK_ATTEMPTS = 8, 10
CLOCK_ERROR = 0.01


def report(text: str) -> None:
    """Write a line for the host to the console."""
    with Path("/dev/console").open("w", encoding="utf-8") as console:
        console.write(f"railbed: {text}\n")


def take_identity() -> None:
    """Take on the identity that the disk describes."""
    for command in WARM_UP:
        subprocess.run(["sh", "-c", f"{command} >/dev/null 2>&1"], check=False)
    wait_until_warm()
    report("waiting for an identity")
    data = wait_for_identity()
    with Path("/dev/random").open("wb", buffering=0) as pool:
        # All nodes resume with the same saved pool; the archive holds a private key that no other node has.
        fcntl.ioctl(pool, RNDADDENTROPY, struct.pack("ii64s", 512, 64, hashlib.sha512(data).digest()))
        fcntl.ioctl(pool, RNDRESEEDCRNG)
    set_clock()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall("/", numeric_owner=True)  # noqa: S202  (it comes from our own host)
    socket.sethostname(Path("/etc/hostname").read_text(encoding="ascii").strip())
    DONE.touch()
    subprocess.run(["networkctl", "reload"], check=False)
    subprocess.run(["/bin/sh", "/usr/lib/railbed/rails-up"], check=False)
    os.sync()
    report("ready")


def wait_until_warm() -> None:
    """Wait until the Python that nodes train with has loaded torch, if there is one."""
    deadline = time.monotonic() + WARM_SECONDS
    while WARM.exists() and "@railbed-warm" not in Path("/proc/net/unix").read_text(encoding="utf-8"):
        if time.monotonic() > deadline:
            report("torch was not loaded in time")
            return
        time.sleep(0.5)


def wait_for_identity() -> bytes:
    """Wait for the archive from the host, and return it."""
    device = next(path.parent for path in Path("/sys/block").glob("*/serial") if path.read_text().strip() == SERIAL)
    descriptor = os.open(f"/dev/{device.name}", os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    while os.preadv(descriptor, [buffer], 0) and buffer[257:262] != b"ustar":
        time.sleep(0.03)
    return buffer[:]


def set_clock() -> None:
    """Set the clock to the host's: to within half of the shortest round trip, some milliseconds.

    The emulated clock of the board would be simpler, but shows whole seconds that begin at any time of the host's. On a
    busy host, this machine may have to wait for a processor while it sets the time, which is then late: it looks again.
    """
    with connect_clock() as connection, connection.makefile("rw", encoding="ascii", buffering=1) as lines:
        for _ in range(CLOCK_ATTEMPTS):
            _, offset = min(ask_clock(lines) for _ in range(CLOCK_QUESTIONS))
            if abs(offset) < CLOCK_ERROR:
                return
            time.clock_settime(time.CLOCK_REALTIME, time.time() + offset)


def connect_clock() -> socket.socket:
    """Connect to the host's clock; the network may still be coming up."""
    deadline = time.monotonic() + CLOCK_SECONDS
    while True:
        try:
            return socket.create_connection(CLOCK, timeout=CLOCK_SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                report(f"the host's clock cannot be reached: {error}")
                raise
            time.sleep(0.05)


def ask_clock(lines: io.TextIOWrapper) -> tuple[float, float]:
    """Return the seconds of a round trip, and how far this clock was behind the host's in the middle of it."""
    before = time.time()
    lines.write("?\n")
    # With the decimal sign of the host's language.
    host = float(lines.readline().replace(",", "."))
    after = time.time()
    return after - before, host - (before + after) / 2


def main() -> None:
    """Run the command that the first argument names."""
    if sys.argv[1] == "identity":
        take_identity()
        return
    set_clock()
    if DONE.exists():
        report("ready")


if __name__ == "__main__":
    main()
