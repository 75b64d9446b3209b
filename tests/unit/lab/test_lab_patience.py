"""Waiting for machines: for slow ones, but not for stuck and dead ones, whose error names the cause."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.cli.test_progress import Clock

from railbed.lab import steps as patience_module
from railbed.lab.host import HostFault
from railbed.lab.model import Spec, StoredLab
from railbed.lab.steps import LongSteps, Patience, ProcessSigns, usual_seconds
from railbed.lab.vm.qemu import machine, qmp, state
from railbed.lab.vm.qemu.hardware import SERIAL_LOG
from railbed.lab.vm.rootfs import stage

HANG = 30.0
WATCHED, QUIET = 10.0, 3.0


def test_signs_of_progress_prolong_the_wait_and_the_longest_ends_it() -> None:
    clock, signs = Clock(), [0]
    patience = Patience(lambda: signs[0], quiet=10.0, most=100.0, clock=clock)
    for now in range(0, 100, 9):
        clock.now, signs[0] = float(now), now
        assert patience.at_end() == ""
    clock.now, signs[0] = 101.0, 101
    assert patience.at_end() == "it was not done within 100 s"


def test_without_a_sign_of_progress_the_wait_ends() -> None:
    clock = Clock()
    patience = Patience(lambda: "the same", quiet=10.0, most=100.0, clock=clock)
    clock.now = 10.0
    assert patience.at_end() == ""
    clock.now = 10.5
    assert patience.at_end() == "it showed no sign of progress for 10 s"


def shows_signs(signs: ProcessSigns) -> bool:
    """Whether a process goes on showing signs of work; one that sleeps may take a while to get there."""
    deadline = time.monotonic() + WATCHED
    before, since = signs(), time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if (now := signs()) != before:
            before, since = now, time.monotonic()
        elif time.monotonic() > since + QUIET:
            return False
    return True


@pytest.mark.parametrize(("code", "works"), [("while True: pass", True), ("import time\ntime.sleep(600)", False)])
def test_a_process_that_wants_a_processor_is_at_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, *, works: bool
) -> None:
    monkeypatch.setattr(patience_module, "LOOK_SECONDS", 0.2)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", f"print(flush=True)\n{code}"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        signs = ProcessSigns(process.pid, tmp_path / "console")
        assert shows_signs(signs) is works
        first = signs()
        (tmp_path / "console").write_text("it speaks")
        assert signs() != first
        process.kill()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredLab:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    folder = tmp_path / "labs" / "one"
    (folder / "node1").mkdir(parents=True)
    (folder / "image").write_text("key/states/tcg-1536-abc\n")
    return StoredLab(spec=Spec(name="one", kind="vm", nodes=1), number=1, id="ab12", folder=folder)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []
    yield begun
    for process in begun:
        process.kill()
        process.wait()


def started(lab: StoredLab, processes: list[subprocess.Popen[bytes]], script: str) -> machine.Started:
    """Return a guest that is a script; it writes to its console and to QEMU's standard error."""
    log = (lab.folder / "node1" / machine.QEMU_LOG).open("wb")
    with log:
        process = subprocess.Popen(["sh", "-c", script], cwd=lab.folder / "node1", stderr=log)
    processes.append(process)
    return machine.Started(lab, lab.nodes[0], process, log_offset=0)


def fault_of(guest: machine.Started) -> HostFault:
    async def wait() -> None:
        async with asyncio.timeout(HANG):
            await machine._until_ready(guest)

    with pytest.raises(HostFault) as raised:
        asyncio.run(wait())
    return raised.value


def test_a_guest_that_is_slow_and_goes_on_is_waited_for(
    lab: StoredLab, processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line comes 200 s after the one before: ten times what was waited for in all."""
    clock = Clock()
    monkeypatch.setattr(machine, "Patience", partial(Patience, clock=clock))
    monkeypatch.setattr(machine, "ProcessSigns", partial(ProcessSigns, clock=clock))
    guest = started(lab, processes, "sleep 600")
    console = lab.folder / "node1" / SERIAL_LOG

    async def speak() -> None:
        for number in range(15):
            with console.open("a") as file:
                file.write(f"[ {number}] still booting\n")
            clock.now += 200.0
            await asyncio.sleep(3 * machine.READY_PAUSE)
        with console.open("a") as file:
            file.write("railbed: ready\n")

    async def both() -> None:
        async with asyncio.timeout(HANG), asyncio.TaskGroup() as group:
            group.create_task(machine._until_ready(guest))
            group.create_task(speak())

    asyncio.run(both())
    assert clock.now == 3000.0


def test_a_guest_that_is_stuck_is_reported_with_its_last_words(
    lab: StoredLab, processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PATIENCE", {"tcg": (0.3, 60.0)})
    (lab.folder / "node1" / SERIAL_LOG).write_text("[ 1] a\n[ 2] mounting /\n[ 3] waiting for the disk\n")
    error = fault_of(started(lab, processes, "exec sleep 600"))
    assert error.message == (
        "node1 is not ready, and it showed no sign of progress for 0.3 s; "
        "last lines on its console: [ 2] mounting / / [ 3] waiting for the disk"
    )


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("echo 'qemu: could not set up host forwarding' >&2; exit 1", "ended with exit code 1: qemu: could not", "tcg"),
        ("kill -9 $$", "node1: QEMU was ended by SIGKILL", "too much memory"),
        ("kill -BUS $$", "node1: QEMU was ended by SIGBUS", "is full"),
        (f"echo 'Kernel panic - not syncing: VFS: no root' >{SERIAL_LOG}; sleep 600", "panicked: Kernel panic", "tcg"),
    ],
    ids=["said why", "out of memory", "no room for memory", "panic"],
)
def test_a_guest_that_is_dead_is_reported_with_the_cause_at_once(
    lab: StoredLab, processes: list[subprocess.Popen[bytes]], script: str, message: str, hint: str
) -> None:
    error = fault_of(started(lab, processes, script))
    assert message in error.message
    assert hint in error.hint


def test_a_full_disk_is_called_so(
    lab: StoredLab, processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    error = fault_of(started(lab, processes, "exit 1"))
    assert "ran out of disk space in" in error.message


def test_a_guest_without_memory_is_called_so(tmp_path: Path) -> None:
    console = "[ 9] Out of memory: Killed process 77 (systemd)\n[ 10] more\n"
    error = qmp.boot_failure(qmp.BootFailure(name="node1", console=console, folder=tmp_path), "it was late")
    assert error.message == "node1 is short of memory: Out of memory: Killed process 77 (systemd)"


def test_an_image_that_panics_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / SERIAL_LOG).write_text("[ 1] Kernel panic - not syncing: no init\n")

    async def wait() -> None:
        boots = asyncio.create_task(asyncio.sleep(HANG, ""))
        try:
            await state._until_waiting(boots, tmp_path, Patience(lambda: None, quiet=HANG, most=HANG), HANG)
        finally:
            boots.cancel()

    with pytest.raises(HostFault, match="the image: its kernel panicked: Kernel panic - not syncing: no init"):
        asyncio.run(wait())


def test_how_long_a_step_took_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    clock = Clock()
    monkeypatch.setattr("railbed.lab.steps.time.monotonic", clock)
    steps = LongSteps("image")
    assert steps.begin("install", "installing", usual=90.0).data == {"usual": 90.0}
    clock.now = 42.0
    ended = steps.end("installed")
    assert (ended.message, ended.data) == ("installed, 42.0 s", {"seconds": 42.0})
    again = steps.begin("install", "installing", usual=90.0)
    assert again.data == {"usual": 42.0}
    assert steps.go_on("unpacking").data == {"usual": 42.0, "detail": "unpacking"}


@pytest.mark.parametrize("damaged", ["", "[]", '{"install": "long"}', "{"])
def test_durations_that_cannot_be_read_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    (tmp_path / "durations.json").write_text(damaged)
    assert usual_seconds("install", 90.0) == 90.0
    LongSteps("image").remember()
    assert list(json.loads((tmp_path / "durations.json").read_text())) == [""]


def test_the_stage_of_an_installation_is_its_newest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert stage(log) == ""
    log.write_text("I: running apt-get update...\nGet:1 http://…\nI: installing essential packages...\nSelecting …\n")
    assert stage(log) == "installing essential packages"
