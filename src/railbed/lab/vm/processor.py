"""How a guest runs: this machine's own processor through KVM, or QEMU's emulation (TCG)."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
from pathlib import Path
from typing import Literal

from railbed.errors import os_reason
from railbed.lab.host import HostFault
from railbed.lab.model import AcceleratorName
from railbed.lab.vm.cache import images_folder
from railbed.lab.vm.recipe import ARCHITECTURES, Architecture
from railbed.store import write_atomically
from railbed.store.cache import read_cached
from railbed.store.run import PRIVATE

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
