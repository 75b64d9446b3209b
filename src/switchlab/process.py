"""Starts an emulated switch or host as a process of its own, and ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from switchlab.control import Control

READY_SECONDS = 120.0
END_SECONDS = 10.0
POLL_SECONDS = 0.02
REJECTED = "rejected: "
DEVICES = {"nexus": "switch", "esxi": "host"}
"""What each kind is, in messages."""


class SwitchFailed(Exception):
    """A switch or host did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSwitch:
    """A switch, or a host, that answers; it ends with `stop`, at the end of a `with` block, or with its starter."""

    host: str
    ssh_port: int
    nxapi_port: int | None
    """None unless NX-API is configured."""
    control: Control
    _process: subprocess.Popen[bytes] = field(repr=False)
    _folder: Path = field(repr=False)

    def stop(self) -> None:
        """End the switch; what it saved remains in the folder that was named as `state`."""
        _end(self._process, self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    kind: str = "nexus",
    *,
    config: str = "",
    password: str = "",
    authorized_keys: Path | None = None,
    state: Path | None = None,
    **options: str | int,
) -> RunningSwitch:
    """Start a switch, or a host, and return it once it answers.

    `config` of a `nexus` consists of lines that are applied and saved, unless the folder `state` has a startup
    configuration already; that of an `esxi` is its description as JSON. The other options are those of
    `python -m switchlab.KIND` with underscores: `platform="n5k"`, `hostname="leaf1"`, `nxapi_port=8443`. A port that is
    not named is a free one. Raises SwitchFailed with the reason if the device does not start, or rejects a line.
    """
    folder = Path(tempfile.mkdtemp(prefix="switchlab-"))
    (folder / "initial.cfg").write_text(config, encoding="utf-8")
    words = {"port": 0, **options, "state": state or folder / "state", "authorized_keys": authorized_keys}
    words |= {name: folder / name for name in ("control", "ready-file")} | {"config": folder / "initial.cfg"}
    process = _launch(kind, folder, words, password)
    try:
        listens = _await_ready(process, folder, DEVICES.get(kind, "device"))
    except SwitchFailed:
        _end(process, folder)
        raise
    return RunningSwitch(
        host=str(options.get("host", "127.0.0.1")),
        ssh_port=int(listens["ssh"]),
        nxapi_port=None if listens.get("nxapi", "off") == "off" else int(listens["nxapi"]),
        control=Control(folder / "control", device=DEVICES.get(kind, "device")),
        _process=process,
        _folder=folder,
    )


def _launch(kind: str, folder: Path, words: Mapping[str, object], password: str) -> subprocess.Popen[bytes]:
    arguments = [text for name, value in words.items() if value is not None for text in (_option(name), str(value))]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", f"switchlab.{kind}", *arguments, "--until-eof"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, f"{kind.upper()}_PASSWORD": password},
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _await_ready(process: subprocess.Popen[bytes], folder: Path, device: str) -> dict[str, str]:
    """Wait until the device answers, and return what listens where."""
    ready, log = folder / "ready-file", folder / "log"
    deadline = time.monotonic() + READY_SECONDS
    while not (ready.exists() and ready.stat().st_size):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            reason = lines[-1] if lines else f"it did not answer within {READY_SECONDS:g} s"
            raise SwitchFailed(f"the {device} did not start: {reason}")
        time.sleep(POLL_SECONDS)
    rejected = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith(REJECTED)]
    if rejected:
        raise SwitchFailed(f"the {device} rejected {rejected[0].removeprefix(REJECTED)}")
    return dict(part.split("=", 1) for part in ready.read_text(encoding="ascii").split())


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
