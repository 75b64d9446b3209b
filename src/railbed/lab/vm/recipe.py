"""What an image is made of, its key (a hash of that), and how a guest runs: through KVM, or emulated by QEMU."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from railbed.errors import UsageError, os_reason
from railbed.lab.host import HostFault
from railbed.lab.model import AcceleratorName, ArchitectureName
from railbed.lab.vm.cache import images_folder
from railbed.store import write_atomically
from railbed.store.cache import read_cached
from railbed.store.run import PRIVATE

CODE = Path(__file__).parent
HERE = CODE / "scripts"
"""Scripts and lists that building an image reads."""
MODULE = CODE / "module"
"""Source of the kernel module that gives rails QoS settings."""
GUEST = CODE / "guest"
"""Files that are copied into an image."""
SUITE = "bookworm"
PACKAGES = (
    *(
        "systemd",
        "systemd-sysv",
        "udev",
        "dbus",
        "kmod",
        "procps",
        "sudo",
        "busybox-static",
        "python3",
    ),
    *("iproute2", "iputils-ping", "ethtool", "nftables", "tcpdump", "openssh-server", "openssh-client", "pciutils"),
    *("rdma-core", "ibverbs-providers", "ibverbs-utils", "perftest", "iperf3", "sockperf", "fio"),
)
WHEELS = ("torch==2.13.0", "numpy==2.4.6", "mpi4py==4.1.2", "mpich==5.0.2")
"""What nodes train with; torch is the one that is tested here."""
PYTHON, GLIBC = "3.11", 36
"""Debian 12 has Python 3.11 and glibc 2.36."""
TRAINING = "/opt/training"
"""Virtual environment that nodes train with, on a disk of its own."""
KEPT_MODULES = (
    "arch/*/crypto/*",
    "crypto/*",
    "drivers/block/loop.ko",
    "drivers/block/null_blk/*",
    "drivers/block/virtio_blk.ko",
    "drivers/char/hw_random/virtio-rng.ko",
    "drivers/infiniband/core/*",
    "drivers/infiniband/sw/*",
    "drivers/net/bonding/*",
    "drivers/net/dummy.ko",
    "drivers/net/ifb.ko",
    "drivers/net/macvlan.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/tun.ko",
    "drivers/net/veth.ko",
    "drivers/net/virtio_net.ko",
    "drivers/net/vrf.ko",
    "drivers/net/vxlan/*",
    "drivers/rtc/rtc-pl031.ko",
    "drivers/virtio/*",
    "fs/configfs/*",
    "fs/ext4/*",
    "fs/fuse/*",
    "fs/nfs/*",
    "fs/overlayfs/*",
    "lib/*",
    "net/802/*",
    "net/8021q/*",
    "net/bridge/*",
    "net/core/*",
    "net/ipv4/*",
    "net/ipv6/*",
    "net/netfilter/*",
    "net/sched/*",
    "net/sunrpc/*",
)
"""Modules that stay, with their dependencies; a `*` also matches folders."""
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic")
"""Modules needed to reach the root disk."""
BOOT_OPTIONS = (
    "root=/dev/vda rw quiet loglevel=4 systemd.show_status=0 audit=0 selinux=0 apparmor=0 mitigations=off nokaslr "
    "SYSTEMD_SECCOMP=0 random.trust_cpu=on random.trust_bootloader=on panic=5"
)
DISK_MEGABYTES = 4096
JOURNAL_MEGABYTES = 16
MEMORY, TRAINING_MEMORY = 1536, 2560
"""Default megabytes of a machine, and of a machine that trains; it uses only what it touches."""
MOST_RAILS = 2
"""Network cards of every machine; a saved machine cannot get more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What differs between processors."""

    name: ArchitectureName
    debian: str
    qemu: str
    package: str
    machine: str
    kvm_machine: str
    console: str
    emulated: str
    """Processor under software emulation."""
    orders_stores: bool
    """Whether programs may rely on stores becoming visible in order."""

    @property
    def is_native(self) -> bool:
        """Whether this machine runs its programs."""
        return platform.machine() == self.name


ARCHITECTURES: dict[str, Architecture] = {
    "aarch64": Architecture(
        name="aarch64",
        debian="arm64",
        qemu="qemu-system-aarch64",
        package="qemu-system-arm",
        machine="virt",
        # The default is an interrupt controller that newer servers cannot virtualise.
        kvm_machine="virt,gic-version=host",
        console="ttyAMA0",
        emulated="neoverse-n1",
        orders_stores=False,
    ),
    "x86_64": Architecture(
        name="x86_64",
        debian="amd64",
        qemu="qemu-system-x86_64",
        package="qemu-system-x86",
        machine="q35",
        kvm_machine="q35",
        console="ttyS0",
        emulated="max",
        orders_stores=True,
    ),
}


def architecture(name: str | None) -> Architecture:
    """Return an architecture by name, by default this machine's."""
    try:
        return ARCHITECTURES[name or platform.machine()]
    except KeyError:
        raise UsageError(
            f"vm labs do not run on {platform.machine()} as it is",
            hint=f"emulate another processor: --arch {' or '.join(ARCHITECTURES)}; `--kind netns` works everywhere",
        ) from None


def image_key(arch: Architecture, guest: Path = GUEST) -> str:
    """Return the name of the image that this recipe builds for an architecture."""
    text = json.dumps([asdict(arch), SUITE, PACKAGES, KEPT_MODULES, BOOT_MODULES, DISK_MEGABYTES])
    digest = hashlib.sha256(text.encode())
    for path in _sources(guest):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return f"{arch.name}-{digest.hexdigest()[:16]}"


def _sources(guest: Path) -> Iterator[Path]:
    """Yield all files that determine an image, including the code that builds it."""
    yield from sorted([*HERE.iterdir(), *MODULE.iterdir()])
    yield from (CODE / name for name in ("rootfs.py", "foreign.py", "initrd.py", "image.py"))
    yield from sorted(path for path in guest.rglob("*") if path.is_file() and path.suffix != ".pyc")


KVM = Path("/dev/kvm")
SC_LEVEL1_ICACHE_LINESIZE = 187
"""The C library's number for it; Python has no name."""
LARGE_CACHE_LINE = 256
PROCESSOR_FIELDS = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "Features")
"""Lines of /proc/cpuinfo that tell one kind of processor from another."""


def accelerators(arch: Architecture, requested: AcceleratorName | None = None) -> list[AcceleratorName]:
    """Return what to run guests of an architecture with, in the order in which to try."""
    if requested == "kvm" and (obstacle := _obstacle(arch)):
        raise HostFault(f"--accelerator kvm is not possible: {obstacle}")
    if requested:
        return [requested]
    return ["tcg"] if why_emulated(arch) else ["kvm", "tcg"]


def why_emulated(arch: Architecture, requested: AcceleratorName | None = None) -> str:
    """Return, for the user, why guests are emulated here and what would change that; empty if KVM runs them."""
    if requested:
        return ""
    if obstacle := _obstacle(arch):
        return f"emulated, which is many times slower: {obstacle}"
    with contextlib.suppress(OSError):
        failure = read_cached(_kvm_failure()).decode(errors="replace").strip()
        return (
            f"emulated, which is many times slower: KVM did not boot a guest here: {failure}; "
            "--accelerator kvm tries it again"
        )
    return ""


def _obstacle(arch: Architecture) -> str:
    """Return why KVM cannot run guests of an architecture here."""
    if not arch.is_native:
        return f"this machine is {platform.machine()}, so that KVM cannot run {arch.name}"
    error = _kvm_error()
    if error is None:
        return ""
    if error.errno == errno.EACCES:
        return "this account may not use KVM; `sudo usermod -aG kvm $USER` and a new login change that"
    return f"there is no KVM here ({KVM}: {os.strerror(error.errno or 0)})"


def remember_kvm(failure: str) -> None:
    """Remember why KVM did not boot a guest, for machines of every size; empty if it did."""
    path = _kvm_failure()
    try:
        if failure:
            write_atomically(path, f"{failure}\n".encode(), mode=PRIVATE)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise HostFault(f"{path} cannot be written: {os_reason(error)}") from error


def _kvm_failure() -> Path:
    """Return the file with the failure of KVM on this processor and kernel: a cache may move to another machine."""
    return images_folder() / f"kvm-{fingerprint('kvm')[:12]}.failed"


def _kvm_error() -> OSError | None:
    try:
        os.close(os.open(KVM, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error
    return None


def arguments(accelerator: AcceleratorName, arch: Architecture) -> list[str]:
    """Return QEMU's options for the processor."""
    if accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    options = f"tcg,thread={_threading(arch)},tb-size={buffer_megabytes(accelerator)}"
    return ["-accel", options, "-cpu", arch.emulated]


def _threading(arch: Architecture) -> Literal["single", "multi"]:
    """Return how QEMU may emulate: on its own thread only where this machine keeps the order the guest relies on."""
    host = ARCHITECTURES.get(platform.machine())
    return "multi" if not arch.orders_stores or (host is not None and host.orders_stores) else "single"


def buffer_megabytes(accelerator: AcceleratorName) -> int:
    """Return how much room QEMU has for translated code.

    It puts each piece on a line of the instruction cache of its own. Where the kernel says that a line is a page, as on
    some Neoverse-N1, a small room is full all the time and translation starts anew.
    """
    if accelerator == "kvm":
        return 0
    return 1024 if os.sysconf(SC_LEVEL1_ICACHE_LINESIZE) > LARGE_CACHE_LINE else 256


def fingerprint(accelerator: AcceleratorName) -> str:
    """Return what a saved machine depends on beside QEMU: under KVM the processor and the kernel, emulated nothing."""
    if accelerator == "tcg":
        return ""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    own = sorted({line for line in lines if line.partition(":")[0].strip() in PROCESSOR_FIELDS})
    return hashlib.sha256("\n".join([platform.release(), *own]).encode()).hexdigest()
