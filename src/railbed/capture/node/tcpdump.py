"""tcpdump as a child: writes a ring of files, reports on standard error, and dies with the recorder.

The files are in a private folder, which disappears with the recorder, whatever ends it. A janitor, a process of its
own, waits until the recorder is gone: it then kills what still writes into the folder, and removes it. A folder that
outlived a power cut is removed by the next recorder: nobody holds its lock.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

PR_SET_PDEATHSIG = 1
HEADER_BYTES = 24
"""Of a pcap file; every file of the ring has the same."""
MEGABYTE = 1_000_000
"""tcpdump's unit for the size of files."""
LEAST_FILES, MOST_FILES = 2, 10
"""Of a ring: with one, nothing would be left whenever it is full."""
CHUNK = 1 << 18
LINE_END = re.compile(rb"[\r\n]+")
COUNT = re.compile(r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")
NAMES = {
    "captured": "captured",
    "received by filter": "received",
    "dropped by kernel": "dropped",
    "dropped by interface": "interface_dropped",
}
LIBC = ctypes.CDLL(None)


class Tcpdump:
    """One tcpdump, on one interface."""

    def __init__(self, port: Mapping[str, Any], order: Mapping[str, Any], folder: str) -> None:
        self.key: str = port["key"]
        self._folder = folder
        self._name = f"{port['number']}.pcap"
        self._process = subprocess.Popen(
            arguments(port, order, os.path.join(folder, self._name)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            preexec_fn=_end_with_parent,  # noqa: PLW1509  (no threads)
            bufsize=0,
        )
        self._text = b""
        self.listening = False
        self.packets = 0
        self.counts: dict[str, int] = {}
        self.message = ""
        """What it printed last, apart from counts."""
        self._stopped = False
        os.set_blocking(self.fileno(), False)

    def fileno(self) -> int:
        """Return its standard error, for select."""
        assert self._process.stderr is not None
        return self._process.stderr.fileno()

    @property
    def ended(self) -> bool:
        """Whether it has ended, and everything it printed was read."""
        return self._process.poll() is not None and not self.receive()

    @property
    def reason(self) -> str:
        """Why it ended by itself; empty if it was stopped, or has recorded as many packets as it should."""
        code = self._process.poll()
        if code is None or code == 0 or self._stopped:
            return ""
        return f"tcpdump was killed by signal {-code}" if code < 0 else self.message or f"tcpdump ended with {code}"

    def receive(self) -> bool:
        """Read what it has printed; return whether there was anything."""
        try:
            data = os.read(self.fileno(), 65536)
        except BlockingIOError:
            return False
        self._text += data
        *lines, self._text = LINE_END.split(self._text)
        for line in lines:
            self._take(line.decode("utf-8", "replace").strip())
        return bool(data)

    def stop(self) -> None:
        """Ask it to write what it has, print its counts and end."""
        self._stopped = self._stopped or self._process.poll() is None
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    @property
    def written(self) -> int:
        """Return how much it has written to the files that are there."""
        return sum(os.path.getsize(path) for path in self._files())

    def send_files(self, write: Callable[[bytes], None]) -> None:
        """Pass its files on as one, the oldest packets first."""
        for number, path in enumerate(self._files()):
            with open(path, "rb") as file:
                file.seek(HEADER_BYTES if number else 0)
                while True:
                    data = file.read(CHUNK)
                    if not data:
                        break
                    write(data)

    @property
    def size(self) -> int:
        """Return the size of its files as one."""
        sizes = [os.path.getsize(path) for path in self._files()]
        return sum(sizes) - HEADER_BYTES * max(0, len(sizes) - 1)

    def _files(self) -> list[str]:
        """Return its files with packets, the oldest first."""
        paths = [os.path.join(self._folder, name) for name in os.listdir(self._folder) if name.startswith(self._name)]
        filled = [path for path in paths if os.path.getsize(path) >= HEADER_BYTES]
        return sorted(filled, key=lambda path: (os.stat(path).st_mtime_ns, path))

    def _take(self, line: str) -> None:
        count = COUNT.match(line)
        if count:
            self.counts[NAMES[count.group(2)]] = int(count.group(1))
        elif line.startswith("Got "):
            self.packets = int(line[4:]) if line[4:].isdigit() else self.packets
        elif "listening on " in line:
            self.listening = True
        elif line:
            line = line.replace("tcpdump: ", "", 1)
            self.message = f"{self.message} {line}" if line.startswith("(") else line

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)


def arguments(port: Mapping[str, Any], order: Mapping[str, Any], path: str) -> list[str]:
    """Return the command line: a ring of files, headers only, in our name, and its count of packets every second."""
    files = min(MOST_FILES, max(LEAST_FILES, order["bytes"] // MEGABYTE))
    words = [order["tcpdump"], "-i", port["source"], "-n", "-p", "-v", "-w", path, "-s", str(order["snap"])]
    words += ["-C", str(max(1, order["bytes"] // files // MEGABYTE)), "-W", str(files)]
    words += ["-B", str(order["buffer_kb"])]
    if os.geteuid() == 0:
        words += ["-Z", "root"]  # otherwise it becomes another user, who cannot write into our folder
    if port["nanoseconds"]:
        words += ["--time-stamp-precision=nano"]
    if order["packets"]:
        words += ["-c", str(order["packets"])]
    return [*words, order["filter"]]


def _end_with_parent() -> None:
    os.setpgid(0, 0)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


PREFIX = "railbed-capture-"
PLACES = ("/var/tmp", "/tmp")  # noqa: S108  (the folder gets a name that nobody can guess)
"""The first is a disk even where /tmp is memory."""
ATTEMPTS, PAUSE_SECONDS = 50, 0.1


def make_folder() -> str:
    """Create the folder, and a janitor for it."""
    place = next((place for place in PLACES if os.access(place, os.W_OK | os.X_OK)), tempfile.gettempdir())
    remove_abandoned(place)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _start_janitor(folder)
    return folder


def remove_abandoned(place: str) -> None:
    """Remove our folders that no recorder uses any more."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if not name.startswith(PREFIX) or os.path.islink(path):
            continue
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            about = os.fstat(lock)
            is_new = time.time() - about.st_mtime < 60
            if about.st_uid == os.geteuid() and not is_new:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(lock)


def remove(folder: str) -> None:
    """Kill what writes into the folder and remove it."""
    for _ in range(ATTEMPTS):
        writers = users_of(folder)
        for pid in writers:
            _kill(pid)
        shutil.rmtree(folder, ignore_errors=True)
        if not writers and not os.path.exists(folder):
            return
        time.sleep(PAUSE_SECONDS)


def users_of(folder: str) -> list[int]:
    """Return the processes that were started to write into the folder: its name is in their arguments."""
    users = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if folder.encode() in file.read():
                        users.append(int(name))
            except OSError:
                continue
    return users


def _start_janitor(folder: str) -> None:
    """Fork a process that waits for the end of this one."""
    waiting, held = os.pipe()
    if os.fork():
        os.close(waiting)
        return
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.alarm(0)
        os.close(held)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.read(waiting, 1)
        remove(folder)
    finally:
        os._exit(0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
