"""The kind of lab made of virtual machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path

from railbed.errors import UsageError
from railbed.lab.folder import NumberTaken
from railbed.lab.host import HostFault, available_megabytes, make_keys, need_programs, need_root, write_known_hosts
from railbed.lab.model import SWITCH, LabNode, Spec, StoredLab, SwitchDoor, rail_name
from railbed.lab.steps import LongSteps, ProcessSigns, Signs
from railbed.lab.vm import cache, faults
from railbed.lab.vm.image import image_folder, needed_megabytes
from railbed.lab.vm.qemu import machine
from railbed.lab.vm.qemu.hardware import SERIAL_LOG, mac
from railbed.lab.vm.qemu.state import memory_of, prepare
from railbed.lab.vm.recipe import MOST_RAILS, TRAINING, accelerators, architecture, buffer_megabytes, why_emulated
from railbed.lab.vm.rootfs import KEYRING
from railbed.lab.vm.training import NEEDED_MEGABYTES as TRAINING_MEGABYTES
from railbed.lab.vm.training import need_pip, training_folder, training_key
from railbed.model import events
from railbed.model.cluster import Login, Node, Port
from railbed.model.record import Event
from railbed.store.cache import cache_folder

MOST_NODES = 16
LEAST_MEMORY = 256
DISK_PER_NODE = 256
THIS_SWITCH, CLAIM = 253, 254
"""The addresses of the switch, and of what holds a lab's number until its nodes have theirs."""
NXAPI_PORT = 8443
LISTENING = "0A"
BUILD_PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "tune2fs": "e2fsprogs",
    "unshare": "util-linux",
    "chroot": "coreutils",
    "depmod": "kmod",
    str(KEYRING): "debian-archive-keyring",
}
FOREIGN_PACKAGES = {"debugfs": "e2fsprogs", "e2fsck": "e2fsprogs", "dpkg-deb": "dpkg"}
TRAINING_PACKAGES = {"debugfs": "e2fsprogs", "mkfs.ext4": "e2fsprogs", "chroot": "coreutils"}


class VmKind:
    """See `railbed.lab.kind.LabKind`."""

    def __init__(self) -> None:
        self._claims: dict[str, socket.socket] = {}

    def admit(self, spec: Spec) -> None:
        """Refuse what the machines, or this machine, cannot do."""
        if spec.nodes > MOST_NODES:
            raise UsageError(f"a vm lab has at most {MOST_NODES} nodes", hint="choose fewer, or --kind netns")
        if spec.rails > MOST_RAILS:
            raise UsageError(f"a vm lab has at most {MOST_RAILS} rails", hint="choose fewer, or --kind netns")
        if spec.scheduler:
            raise UsageError("only a netns lab has a scheduler", hint="omit --kind vm or --scheduler")
        if 0 < spec.memory < LEAST_MEMORY:
            raise UsageError(f"a node needs at least {LEAST_MEMORY} MB of memory, not {spec.memory}")
        arch = architecture(spec.arch)
        needed = {arch.qemu: arch.package, "qemu-img": "qemu-utils", "ssh-keygen": "openssh-client"}
        space = spec.nodes * DISK_PER_NODE
        image = image_folder(arch)
        if not cache.is_whole(image):
            need_root("building the image of a vm lab, which is done once,")
            needed |= BUILD_PACKAGES if arch.is_native else BUILD_PACKAGES | FOREIGN_PACKAGES
            space += needed_megabytes(arch)
        if spec.training and not cache.is_whole(training_folder(image, training_key(arch))):
            need_root("building the training disk of a vm lab, which is done once,")
            needed |= TRAINING_PACKAGES
            need_pip()
            space += TRAINING_MEGABYTES
        need_programs(needed)
        _need_memory(spec)
        _need_space(space)

    async def taken_numbers(self) -> set[int]:
        """Return numbers whose addresses are in use on this machine."""
        return set(numbers_listening(_connections()))

    async def claim(self, lab: StoredLab) -> None:
        """Listen on an address of the lab's number as long as its nodes do not.

        Only one process can: no lock is needed, which would be one that every user of this machine can hold.
        """
        try:
            claim = socket.create_server((f"127.77.{lab.number}.{CLAIM}", machine.PORT))
        except OSError as error:
            if lab.number in await self.taken_numbers():
                raise NumberTaken(f"the addresses of lab number {lab.number} are in use") from error
            raise HostFault(
                f"port {machine.PORT}, which leads to the nodes, is not available: {os.strerror(error.errno or 0)}",
                hint=f"`ss -ltnp sport = :{machine.PORT}` shows which process uses it",
            ) from error
        if list(numbers_listening(_connections())).count(lab.number) > 1:
            claim.close()  # of a lab whose nodes came up after this number was chosen
            raise NumberTaken(f"the addresses of lab number {lab.number} are in use")
        self._claims[lab.id] = claim

    async def build(self, lab: StoredLab) -> AsyncGenerator[Event, None]:
        """Make the image if it is missing, then all nodes concurrently."""
        arch = architecture(lab.spec.arch)
        accelerator = lab.spec.accelerator
        if reason := why_emulated(arch, accelerator):
            yield events.LabEmulated(subject=lab.spec.name, message=reason)
        async with aclosing(
            prepare(lab.folder, arch, lab.spec.memory, accelerator, training=lab.spec.training)
        ) as preparation:
            async for event in preparation:
                yield event
        steps, names = LongSteps(lab.spec.name), [node.name for node in lab.nodes]
        yield steps.begin(
            f"start-{lab.spec.nodes}", "starting the nodes from the saved machine", usual=20.0, waiting=names
        )
        await make_keys(lab)
        doors = {node.name: (machine.door(node), machine.PORT) for node in lab.nodes}
        write_known_hosts(
            lab, doors | ({SWITCH: (self.switch_door(lab).host, machine.PORT)} if lab.spec.switch else {})
        )
        machine.start_hub(lab)
        starts = {asyncio.create_task(self._start(lab, node)): node for node in lab.nodes}
        try:
            for start in asyncio.as_completed(starts):
                node = await start
                yield events.LabNodeBooted(subject=node.name, message="booted, its rails are up")
        finally:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        steps.remember()
        self._let_go(lab)
        await faults.shape(lab)

    def signs(self, lab: StoredLab) -> Signs:
        """Watch the QEMUs."""
        running = [
            ProcessSigns(pid, machine.node_folder(lab, node) / SERIAL_LOG)
            for node in lab.nodes
            for pid in machine.processes(lab, node)
        ]
        return lambda: tuple(signs() for signs in running)

    async def destroy(self, lab: StoredLab) -> None:
        """End the machines, and remove unfinished images."""
        await machine.end_all(lab)
        self._let_go(lab)
        if cache.images_folder().is_dir():
            with contextlib.suppress(HostFault):
                cache.clear_unless_busy()

    def describe(self, lab: StoredLab, node: LabNode) -> Node:
        """Return a node; it trains with its own Python."""
        ports = (
            Port(netdev=rail_name(rail), rdma=f"rxe{rail}", rail=rail_name(rail), address=node.rail_address(rail))
            for rail in range(lab.spec.rails)
        )
        python = f"{TRAINING}/bin/python3" if lab.spec.training else "python3"
        return Node(host=machine.door(node), login=Login(port=machine.PORT), ports=tuple(ports), python=python)

    def switch_door(self, lab: StoredLab) -> SwitchDoor:
        """Return an address of this machine beside those that lead to the nodes."""
        return SwitchDoor(host=f"127.77.{lab.number}.{THIS_SWITCH}", ssh_port=machine.PORT, nxapi_port=NXAPI_PORT)

    async def rail_macs(self, lab: StoredLab) -> Mapping[tuple[LabNode, int], str]:
        """Return the addresses that the nodes' identities give the cards."""
        return {(node, rail): mac(node, rail) for node, rail in lab.ports()}

    def link_mbps(self, lab: StoredLab) -> int | None:
        """Return the speed of the lab: a virtual machine's card reports none."""
        return lab.spec.rate // 1_000_000 if lab.spec.rate else None

    async def settle(self, lab: StoredLab, targets: Iterable[str]) -> None:
        """See `faults`."""
        await faults.settle(lab, targets)

    async def states(self, lab: StoredLab) -> Mapping[str, str]:
        """Return the state of each node."""
        states = await asyncio.gather(*(self._state(lab, node) for node in lab.nodes))
        return dict(zip((node.name for node in lab.nodes), states, strict=True))

    async def _state(self, lab: StoredLab, node: LabNode) -> str:
        if not machine.is_running(lab, node):
            return "off"
        try:
            return "frozen" if await machine.is_frozen(lab, node) else "up"
        except HostFault:
            return "up" if machine.is_running(lab, node) else "off"

    async def _start(self, lab: StoredLab, node: LabNode) -> LabNode:
        await machine.make(lab, node)
        await machine.resume(lab, node)
        return node

    def _let_go(self, lab: StoredLab) -> None:
        if claim := self._claims.pop(lab.id, None):
            claim.close()


def _need_memory(spec: Spec) -> None:
    """Refuse more nodes than memory; what QEMU itself takes is counted."""
    each = memory_of(spec.memory, training=spec.training) + buffer_megabytes(
        accelerators(architecture(spec.arch), spec.accelerator)[-1]
    )
    available = available_megabytes()
    if spec.nodes * each > available:
        fit = available // each
        hint = f"there is room for {fit}" if fit else "--memory gives each less"
        raise HostFault(
            f"{spec.nodes} nodes need {spec.nodes * each} MB of memory, and {available} are free", hint=hint
        )


def _need_space(megabytes: int) -> None:
    folder = next(folder for folder in (cache_folder(), *cache_folder().parents) if folder.is_dir())
    free = shutil.disk_usage(folder).free >> 20
    if free < megabytes:
        hint = "RAILBED_CACHE=FOLDER names another place"
        raise HostFault(f"the lab needs {megabytes} MB in {folder}, and {free} are free", hint=hint)


def _connections() -> str:
    return Path("/proc/net/tcp").read_text(encoding="ascii")


def numbers_listening(table: str) -> Iterator[int]:
    """Yield N for every 127.77.N.x that something listens on, from the kernel's table."""
    for line in table.splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address = socket.inet_ntoa(int(local.partition(":")[0], 16).to_bytes(4, sys.byteorder))
        if state == LISTENING and address.startswith("127.77."):
            yield int(address.split(".")[2])
