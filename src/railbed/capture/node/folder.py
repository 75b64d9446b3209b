"""The private folder of a recording, which disappears with the recorder, whatever ends it.

A janitor, a process of its own, waits until the recorder is gone: it then kills what still writes into the folder, and
removes it. A folder that outlived a power cut is removed by the next recorder: nobody holds its lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time

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
