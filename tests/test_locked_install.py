"""What is installed is what was locked: pip refuses every other file, with the script that `make setup` uses."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import lockfile

from tests.support.cli import environment
from tests.support.wheels import sha256_of, write_wheel

SCRIPT = Path(lockfile.__file__).with_name("install_locked.sh")
PIP = """\
#!/bin/sh
exec {python} -P -m pip "$@" --no-index --find-links {folder}/index --target {folder}/installed
"""
pytestmark = pytest.mark.whole


@dataclass(frozen=True)
class Index:
    """A folder of wheels, and what pip installs from there."""

    folder: Path

    @property
    def wheels(self) -> Path:
        return self.folder / "index"

    def install(self, *locked: lockfile.Package) -> tuple[set[str], str]:
        """Install from a lock file; return the modules that are there afterwards, and what pip printed."""
        lockfile.write(self.folder / "locked.txt", locked)
        with (self.folder / "locked.txt").open() as lines:
            done = subprocess.run(
                ["sh", str(SCRIPT), str(self.folder), "-"],
                stdin=lines,
                env=environment(PIP_FIND_LINKS="", PIP_CONFIG_FILE="/dev/null"),
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        modules = {path.stem for path in (self.folder / "installed").glob("*.py")}
        assert (done.returncode == 0) == bool(modules), done
        return modules, done.stderr


@pytest.fixture
def index(tmp_path: Path) -> Index:
    for name in ("bin", "index"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "pip").write_text(PIP.format(python=sys.executable, folder=tmp_path))
    (tmp_path / "bin" / "pip").chmod(0o755)
    return Index(tmp_path)


def locked(wheel: Path) -> lockfile.Package:
    name, version, *_ = wheel.name.split("-")
    return lockfile.Package(name, version, "", (lockfile.Wheel(wheel.name, sha256_of(wheel)),))


def test_the_locked_file_is_installed(index: Index) -> None:
    assert index.install(locked(write_wheel(index.wheels, "mine", "1.0"))) == ({"mine"}, "")


def test_a_file_with_one_other_byte_is_refused(index: Index) -> None:
    wheel = write_wheel(index.wheels, "mine", "1.0")
    package = locked(wheel)
    content = wheel.read_bytes()
    changed = content.replace(b"version = '1.0'", b"version = '1.1'", 1)
    assert len([1 for old, new in zip(content, changed, strict=True) if old != new]) == 1
    wheel.write_bytes(changed)
    modules, problem = index.install(package)
    assert (modules, "DO NOT MATCH THE HASHES" in problem) == (set(), True), problem


def test_a_newer_version_on_the_index_is_ignored(index: Index) -> None:
    package = locked(write_wheel(index.wheels, "mine", "1.0"))
    write_wheel(index.wheels, "mine", "2.0")
    assert index.install(package) == ({"mine"}, "")
    assert (index.folder / "installed" / "mine.py").read_text() == "version = '1.0'\n"


def test_a_local_build_that_was_not_admitted_is_refused(index: Index) -> None:
    """pip prefers such a build to the locked one; it must not be installed, nor anything else in its place."""
    package = locked(write_wheel(index.wheels, "mine", "1.0"))
    write_wheel(index.wheels, "mine", "1.0+cpu")
    modules, problem = index.install(package)
    assert (modules, "DO NOT MATCH THE HASHES" in problem) == (set(), True), problem


def test_what_a_package_requires_must_be_locked_too(index: Index) -> None:
    write_wheel(index.wheels, "other", "1.0")
    modules, problem = index.install(locked(write_wheel(index.wheels, "mine", "1.0", "other")))
    assert (modules, "In --require-hashes mode" in problem) == (set(), True), problem


def test_a_source_package_is_not_built(index: Index) -> None:
    """Also not with the right SHA-256: what builds it would not be checked."""
    source, archive = index.folder / "mine-1.0", index.wheels / "mine-1.0.tar.gz"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(index.folder / 'executed')!r}, 'w')\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    with tarfile.open(archive, "w:gz") as file:
        file.add(source, "mine-1.0")
    shutil.rmtree(source)
    package = lockfile.Package("mine", "1.0", "", (lockfile.Wheel("mine-1.0.whl", sha256_of(archive)),))
    modules, problem = index.install(package)
    assert (modules, "No matching distribution" in problem) == (set(), True), problem
    assert not (index.folder / "executed").exists()
