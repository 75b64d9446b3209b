"""A booted machine that waits for its identity, saved so that every node can resume from it.

Its memory is a file that nodes map privately and share as far as they do not change it. Therefore it is never written
again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

from railbed.errors import DeviceError
from railbed.lab.host import HostFault, run
from railbed.lab.model import AcceleratorName
from railbed.lab.steps import LongSteps, Patience, ProcessSigns
from railbed.lab.vm import cache
from railbed.lab.vm.image import DISK, image_folder, make_image
from railbed.lab.vm.qemu import qmp
from railbed.lab.vm.qemu.hardware import (
    BASE,
    IDENTITY,
    IDENTITY_BYTES,
    MONITOR,
    RAM,
    SAVED,
    SERIAL_LOG,
    Hardware,
    Machine,
    command,
)
from railbed.lab.vm.qemu.qmp import BootFailure, NotBooted, boot_failure, has_panicked
from railbed.lab.vm.recipe import (
    MEMORY,
    TRAINING_MEMORY,
    Architecture,
    accelerators,
    architecture,
    fingerprint,
    remember_kvm,
    why_emulated,
)
from railbed.lab.vm.training import make_training, training_folder, training_key
from railbed.model.events import LabEmulated
from railbed.model.events.general import progress
from railbed.model.record import Event

Part = tuple[Path, Callable[[], AsyncGenerator[Event, None]]]
OLDEST_QEMU = (7, 2)
WAITING = "railbed: waiting for an identity"
USUAL_SECONDS = {"kvm": 15.0, "tcg": 90.0}
PATIENCE = {"kvm": (60.0, 900.0), "tcg": (240.0, 7200.0)}
"""Seconds to wait for a machine after its last sign of progress, and at most."""
SILENCE_SECONDS = 20.0
"""How long a guest under KVM may print nothing: it prints within a second, or never where KVM only pretends to work."""
SETTLE_SECONDS = 2.0
SAVE_SECONDS = 300.0
IGNORE_SHARED = [{"capability": "x-ignore-shared", "state": True}]
"""Memory that lies in a file is not saved once more."""


async def prepare(
    lab_folder: Path, arch: Architecture, memory: int, accelerator: AcceleratorName | None, *, training: bool
) -> AsyncGenerator[Event, None]:
    """Choose the saved machine that a lab resumes from, and build what is missing."""
    version = await qemu_version(arch)
    if cache.is_busy():
        yield progress("another railbed is working on it: waiting", subject="image")
    async with cache.lock_images():
        made = False
        missing = (make for folder, make in _parts(arch, training=training) if not cache.is_whole(folder))
        for make in missing:
            made = True
            cache.clear()
            async with aclosing(make()) as events:
                async for event in events:
                    yield event
        disk, size = training_key(arch) if training else "", memory_of(memory, training=training)
        choices = [Hardware(arch.name, name, size, disk) for name in accelerators(arch, accelerator)]
        for hardware in choices:
            state = state_folder(version, hardware)
            try:
                if not cache.is_whole(state):
                    made = True
                    async with aclosing(_make_state(state, hardware)) as events:
                        async for event in events:
                            yield event
            except NotBooted as error:
                if hardware is choices[-1]:
                    raise
                remember_kvm(error.message)
                yield LabEmulated(subject="image", message=why_emulated(arch))
                continue
            cache.choose(lab_folder, state)
            break
        if made:
            cache.clear(keep=cache.find_saved_machine(lab_folder))


def _parts(arch: Architecture, *, training: bool) -> list[Part]:
    """Return what a machine is saved from, with what makes it."""
    image = image_folder(arch)
    parts: list[Part] = [(image, partial(make_image, arch))]
    if training:
        parts.append((training_folder(image, training_key(arch)), partial(make_training, arch)))
    return parts


def memory_of(megabytes: int, *, training: bool) -> int:
    """Return the megabytes of a machine."""
    return megabytes or (TRAINING_MEMORY if training else MEMORY)


def hardware_of(state: Path) -> Hardware:
    """Return the hardware that a saved machine is of."""
    accelerator, size, _ = state.name.split("-")
    memory, _, training = size.partition("+")
    arch = architecture(state.parent.parent.name.rpartition("-")[0])
    return Hardware(arch.name, "kvm" if accelerator == "kvm" else "tcg", int(memory), training)


async def qemu_version(arch: Architecture) -> str:
    """Return the version of QEMU; refuse one that cannot connect machines by datagrams."""
    version = (await run([arch.qemu, "--version"])).partition("\n")[0]
    match = re.search(r"version (\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < OLDEST_QEMU:
        raise HostFault(
            f"QEMU {match[1]}.{match[2]} is too old for a vm lab, which needs 7.2", hint="--kind netns needs none"
        )
    return version


def state_folder(version: str, hardware: Hardware) -> Path:
    """Return the folder of the machine saved by this QEMU with this hardware."""
    text = json.dumps([version, fingerprint(hardware.accelerator), command(_machine(Path("image"), hardware))])
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    size = f"{hardware.memory}+{hardware.training}" if hardware.training else str(hardware.memory)
    return image_folder(architecture(hardware.arch)) / cache.STATES / f"{hardware.accelerator}-{size}-{key}"


async def _make_state(state: Path, hardware: Hardware) -> AsyncGenerator[Event, None]:
    """Boot a machine and save it."""
    steps, emulated = LongSteps("image"), hardware.accelerator != "kvm"
    usual = USUAL_SECONDS[hardware.accelerator] * (2 if hardware.training else 1)
    how = "booting it once to be saved" + (" (emulated)" if emulated else "")
    yield steps.begin(f"boot-{hardware.arch}-{state.name.rpartition('-')[0]}", how, usual=usual)
    with cache.making(state, (RAM, SAVED, BASE)) as new:
        await _boot_and_save(new, hardware)
    if hardware.accelerator == "kvm":
        remember_kvm("")
    yield steps.end("booted and saved")


def _machine(image: Path, hardware: Hardware) -> Machine:
    return Machine(
        name="railbed-image", hardware=hardware, image=image, folder=".", disk=BASE, ram=RAM, ram_is_shared=True
    )


async def _boot_and_save(folder: Path, hardware: Hardware) -> None:
    image = image_folder(architecture(hardware.arch))
    with (folder / IDENTITY).open("wb") as file:
        os.truncate(file.fileno(), IDENTITY_BYTES)
    # Named relative to the overlay, which moves.
    backing = f"../../{DISK}"
    await run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", backing, "-F", "raw", str(folder / BASE)])
    quiet, most = PATIENCE[hardware.accelerator]
    silence = SILENCE_SECONDS if hardware.accelerator == "kvm" else most
    pids: list[int] = []
    qemu = run(command(_machine(image, hardware)), cwd=folder, seconds=2 * most, on_start=pids.append)
    machine = asyncio.create_task(qemu)
    try:
        async with qmp.connect_qmp(folder / MONITOR, ended=machine.done) as monitor:
            signs = ProcessSigns(pids[0], folder / SERIAL_LOG)
            await _until_waiting(machine, folder, Patience(signs, quiet=quiet, most=most), silence)
            await asyncio.sleep(SETTLE_SECONDS)
            await monitor.execute("stop")
            await monitor.execute("migrate-set-capabilities", capabilities=IGNORE_SHARED)
            await monitor.execute("migrate", uri=f"exec:cat >{SAVED}")
            await _until_saved(monitor)
            await monitor.execute("quit")
            await machine
    except HostFault as error:
        if machine.done() and (ending := machine.exception()):
            # The output of QEMU explains more than the fact that it ended.
            raise NotBooted(str(ending)) from error
        raise
    finally:
        machine.cancel()
        with suppress(asyncio.CancelledError, DeviceError):
            await machine


async def _until_waiting(machine: asyncio.Task[str], folder: Path, patience: Patience, silence: float) -> None:
    deadline = time.monotonic() + silence
    while not machine.done():
        console = _text(folder / SERIAL_LOG)
        if WAITING in console:
            return
        if not console and time.monotonic() > deadline:
            # Whatever it does with the processor meanwhile, it is not booting.
            raise NotBooted(
                f"the guest printed nothing for {silence:g} s", hint="--accelerator tcg emulates, many times slower"
            )
        why = patience.at_end()
        if why or has_panicked(console):
            raise boot_failure(BootFailure(name="the image", console=console, folder=folder), why)
        await asyncio.sleep(0.1)
    await machine
    raise HostFault("the image shut down while booting")


async def _until_saved(monitor: qmp.Qmp) -> None:
    deadline = time.monotonic() + SAVE_SECONDS
    while (status := (await monitor.execute("query-migrate")).get("status")) != "completed":
        if status == "failed" or time.monotonic() > deadline:
            raise HostFault("QEMU could not save the machine")
        await asyncio.sleep(0.02)


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
