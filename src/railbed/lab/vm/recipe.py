"""Contents of an image, and its key: a hash of them."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from railbed.errors import UsageError
from railbed.lab.model import ArchitectureName

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
