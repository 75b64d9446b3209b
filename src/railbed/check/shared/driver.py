"""How a distribution gets NVIDIA's driver, as a plan for people: it needs a reboot, which railbed never does.

The branch is the newest that has all GPUs from Maxwell to Blackwell, and is new enough for CUDA 13.
"""

from __future__ import annotations

from collections.abc import Collection

from railbed.probes.os_release import OsRelease

BRANCH = "580"
FIRST_MAXWELL, FIRST_TURING = 0x1340, 0x1E00
"""PCI device numbers rise with the generations."""
GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide"
REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"
RED_HAT = ("rhel", "rocky", "almalinux", "ol", "centos")
SUSE = ("sles", "opensuse-leap")
REBOOT = "then reboot the machine yourself: railbed never does"
NO_DRIVER = (
    "no driver that a current PyTorch needs supports a GPU as old as this: use another, or train on the processors"
)


def driver_plan(chips: Collection[int] | None, release: OsRelease | None) -> str:
    """Return the commands that install the driver; `chips` are the PCI device numbers of the GPUs, if known."""
    if any(chip < FIRST_MAXWELL for chip in chips or ()):
        return NO_DRIVER
    # The open kernel modules are NVIDIA's default, but have no GPU before Turing.
    is_open = not any(chip < FIRST_TURING for chip in chips or ())
    return f"{_install(release, is_open=is_open)}; {REBOOT}"


def _install(release: OsRelease | None, *, is_open: bool) -> str:
    distribution = (release.distribution if release else "") or ""
    major = ((release.version if release else "") or "").partition(".")[0]
    if distribution == "ubuntu":
        # `ubuntu-drivers install --gpgpu` may choose modules for another kernel, and no nvidia-smi.
        flavour = "-open" if is_open else ""
        packages = f"nvidia-headless-{BRANCH}-server{flavour} nvidia-utils-{BRANCH}-server"
        return f"apt-get update && apt-get install linux-headers-$(uname -r) {packages}"
    if distribution == "debian":
        package = "nvidia-open" if is_open else f"cuda-drivers-{BRANCH}"
        return f"{_repository('debian', major)}: apt-get install linux-headers-$(uname -r) {package}"
    package = "nvidia-open" if is_open else "cuda-drivers"
    if distribution in RED_HAT:
        stream = f"nvidia-driver:{BRANCH}-{'open' if is_open else 'dkms'}"
        # From 10 on, the package manager has no modules.
        enable = f"dnf module enable {stream} && " if major in ("8", "9") else ""
        return f"{_repository('rhel', major)}: {enable}dnf install {package}"
    if distribution == "fedora":
        return f"{_repository('fedora', major)}: dnf install {package}"
    if distribution in SUSE:
        return f"{_repository('sles', major)}: zypper install {package}"
    kernel = "open" if is_open else "proprietary"
    return f"install NVIDIA's driver {BRANCH} with its {kernel} kernel modules ({GUIDE})"


def _repository(name: str, major: str) -> str:
    """Return where the packages come from; a version that is not a number is left out of the address."""
    where = f"{REPOSITORIES}/{name}{major}" if major.isdecimal() and len(major) < 4 else REPOSITORIES
    return f"with NVIDIA's repository ({where})"
