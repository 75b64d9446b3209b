"""A program in place of QEMU: it answers on its monitor, and a guest under KVM is busy, but prints nothing.

So do machines whose hypervisor offers /dev/kvm without being able to run guests.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
from pathlib import Path

CALLS = "QEMU_CALLS"
"""Environment variable with the file to which each start appends its accelerator."""
KVM_WORKS = "QEMU_KVM_WORKS"
CONSOLE = "railbed: the kernel runs\nrailbed: waiting for an identity\n"


def write_programs(folder: Path) -> None:
    """Write programs with the names of QEMU's into a folder."""
    folder.mkdir()
    script = f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__)} "$@"\n'
    for name in ("qemu-system-x86_64", "qemu-system-aarch64", "qemu-img"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def option(name: str) -> str:
    """Return the value of an option."""
    return next(value for word, value in itertools.pairwise(sys.argv) if word == name)


def answer(commands: socket.socket) -> None:
    """Answer commands on the monitor until `quit`."""
    with commands.makefile("rw") as lines:
        lines.write('{"QMP": {}}\n')
        lines.flush()
        for line in lines:
            command = json.loads(line)
            if command["execute"] == "migrate":
                Path("vmstate").touch()
            status = {"status": "completed"} if command["execute"] == "query-migrate" else {}
            lines.write(json.dumps({"return": status}) + "\n")
            lines.flush()
            if command["execute"] == "quit":
                os._exit(0)


def listen(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while True:
            answer(server.accept()[0])


def main() -> None:
    if sys.argv[1] == "--version":
        sys.stdout.write("QEMU emulator version 7.2.0\n")
        return
    if sys.argv[1] == "create":
        Path(sys.argv[-1]).touch()
        return
    accelerator = option("-accel").partition(",")[0]
    with Path(os.environ[CALLS]).open("a") as calls:
        calls.write(f"{accelerator}\n")
    Path("ram").touch()
    threading.Thread(target=listen, args=["qmp.sock"], daemon=True).start()
    if accelerator == "tcg" or KVM_WORKS in os.environ:
        Path("serial.log").write_text(CONSOLE)
        threading.Event().wait()
    while True:
        pass


if __name__ == "__main__":
    main()
