"""The site's mirror of Debian's packages and of a package index, which machines without a network reach by a tunnel.

The packages are those that Debian has today, downloaded here with apt for the machine as it is. The wheels of MPI are
those of the package index that pip is set up with. Those of torch and numpy only point at a folder of the site that
every machine mounts, the lab's disk for training: an emulated machine takes half an hour to install the real ones.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from railbed.check.shared.environment import MPI, REQUIREMENTS, package_of
from railbed.lab.vm.recipe import GLIBC, PYTHON, SUITE, Architecture
from railbed.lab.vm.recipe import WHEELS as WHEELS_OF_LAB
from railbed.lab.vm.rootfs import KEYRING
from tests.support.wheels import write_wheel

DEBIAN, SECURITY = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
SECONDS = 1200.0
PACKAGES, WHEELS = "debian", "wheels"
SHARED = ("torch", "numpy")
SHARED_FOLDER = "/opt/shared"
PORT = 8081
"""Of the mirror, on the machines."""
SOURCES = f"deb [trusted=yes] http://127.0.0.1:{PORT}/{PACKAGES} ./\n"
PIP = f"[global]\nno-index = true\nfind-links = http://127.0.0.1:{PORT}/{WHEELS}/\n"


def download_packages(folder: Path, names: Iterable[str], arch: Architecture, status: str) -> None:
    """Fill a repository with packages, and with what a machine with this dpkg status lacks of their dependencies."""
    state, packages = folder / "apt", folder / PACKAGES
    for path in (state / "lists" / "partial", packages / "partial"):
        path.mkdir(parents=True)
    (state / "status").write_text(status)
    signed = f"[signed-by={KEYRING}]"
    own = os.environ.get("RAILBED_MIRROR")
    places = [(own, SUITE)] if own else [(DEBIAN, SUITE), (DEBIAN, f"{SUITE}-updates"), (SECURITY, f"{SUITE}-security")]
    (state / "sources.list").write_text("".join(f"deb {signed} {url} {suite} main\n" for url, suite in places))
    settings = {
        "APT::Architecture": arch.debian,
        "APT::Architectures": arch.debian,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Dir::Cache": state,
        "Dir::Cache::archives": packages,
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": state,
        "Dir::State::status": state / "status",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for command in (["update"], ["--yes", "--download-only", "install", *names]):
        done = subprocess.run(
            ["apt-get", "-qq", *options, *command], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
    (packages / "Packages").write_text("".join(_entry(path) for path in sorted(packages.glob("*.deb"))))


def _entry(package: Path) -> str:
    control = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True, timeout=60).stdout
    data = package.read_bytes()
    return f"{control}Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def make_wheels(folder: Path, arch: Architecture) -> None:
    """Write or download the wheels that training needs; none of them needs others."""
    wheels = folder / WHEELS
    wheels.mkdir()
    for name, _, version in (wheel.partition("==") for wheel in WHEELS_OF_LAB):
        if name in SHARED:
            write_wheel(wheels, name, version, place=SHARED_FOLDER)
    write_wheel(wheels, "huggingface_hub", "2.0.0")  # tokenizers names it, and needs it for downloads only
    rest = [line for line in (*REQUIREMENTS, *MPI) if package_of(line) not in SHARED]
    _download_wheels(wheels, rest, arch)


def _download_wheels(folder: Path, requirements: Sequence[str], arch: Architecture) -> None:
    """Download wheels that fit the machines' Python."""
    versions = [*(f"_2_{minor}" for minor in range(GLIBC, 16, -1)), "2014"]
    platforms = [f"--platform=manylinux{version}_{arch.name}" for version in versions]
    options = ["--quiet", "--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}", *platforms]
    words = [sys.executable, "-P", "-m", "pip", "download", *options, "--no-deps", f"--dest={folder}", *requirements]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve a folder on this machine's loopback, and yield the port."""
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line about each."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""
