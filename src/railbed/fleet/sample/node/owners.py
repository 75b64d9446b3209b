"""Which processes hold sockets: those of the training, and the programs that hold others."""

from __future__ import annotations

import os

PROC = "/proc"


class Owners:
    """The processes of this node. Those of the training, or what started them, work in its folder."""

    def __init__(self, folder: str, proc: str = PROC) -> None:
        self._folder = f"/{folder}/"
        self._proc = proc

    def training_sockets(self) -> set[int] | None:
        """Return the inodes of the training's sockets; None if no process of it is visible."""
        parents, training = {}, set()
        for process in self._processes():
            parents[process] = self._parent(process)
            if self._folder in f"{_link(f'{self._proc}/{process}/cwd')}/":
                training.add(process)
        if not training:
            return None
        # A program may have changed to another folder since it was started in this one.
        growing = True
        while growing:
            children = {process for process, parent in parents.items() if parent in training} - training
            training |= children
            growing = bool(children)
        return {inode for process in training for inode in self._sockets(process)}

    def programs(self, inodes: set[int]) -> dict[int, tuple[str, str]]:
        """Return the process and the name of the program that holds each socket, as far as they may be seen."""
        owners: dict[int, tuple[str, str]] = {}
        for process in self._processes():
            for inode in inodes.intersection(self._sockets(process)):
                owners[inode] = process, _text(f"{self._proc}/{process}/comm")
        return owners

    def _processes(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._proc) if name.isdigit()]
        except OSError:
            return []

    def _parent(self, process: str) -> str:
        # The name of a program, in brackets, may contain spaces and brackets.
        fields = _text(f"{self._proc}/{process}/stat").rpartition(")")[2].split()
        return fields[1] if len(fields) > 1 else ""

    def _sockets(self, process: str) -> list[int]:
        folder = f"{self._proc}/{process}/fd"
        try:
            links = [_link(f"{folder}/{name}") for name in os.listdir(folder)]
        except OSError:  # it ended, or belongs to another user
            return []
        return [int(link[8:-1]) for link in links if link.startswith("socket:[") and link[8:-1].isdigit()]


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""
