"""The lock files: complete for every processor and Python that railbed is tested on, and nothing but a lock."""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tools import lock, lockfile
from tools.lockfile import Package, Wheel

from railbed.lab.vm.recipe import PYTHON, WHEELS

ROOT = lock.ROOT
OLDEST_GLIBC = 36
"""Debian 12's."""
DIGEST = "a" * 64


def locked_for(target: lock.Target) -> dict[str, Package]:
    """Return the packages of all files for a kind of machine; each is there in one version."""
    packages: dict[str, Package] = {}
    for name in lock.ORDER:
        for package in lockfile.read(lockfile.path_of(name)):
            if target.needs(package):
                assert packages.setdefault(package.name, package).version == package.version
    return packages


def make(name: str, *files: str, marker: str = "") -> Package:
    return Package(
        name, "1.0", marker, tuple(Wheel(file, DIGEST) for file in files or (f"{name}-1.0-py3-none-any.whl",))
    )


def test_there_is_a_file_for_each_use_and_no_other() -> None:
    assert {path.stem for path in lockfile.FOLDER.iterdir()} == set(lock.ORDER)


@pytest.mark.parametrize("target", lock.TARGETS, ids=str)
def test_every_package_has_a_wheel_for(target: lock.Target) -> None:
    for package in locked_for(target).values():
        assert any(target.runs(wheel, OLDEST_GLIBC) for wheel in package.wheels), package.name


@pytest.mark.parametrize("target", lock.TARGETS, ids=str)
def test_all_that_pyproject_asks_for_is_locked_in_a_version_that_it_admits(target: lock.Target) -> None:
    packages = locked_for(target)
    wanted = lock.read_requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    requirements = {Requirement(line) for lines in wanted.values() for line in lines}
    for requirement in requirements:
        if not target.needs(make(requirement.name, marker=str(requirement.marker or ""))):
            continue
        assert packages[canonicalize_name(requirement.name)].version in requirement.specifier, requirement


def test_all_that_is_installed_here_is_locked() -> None:
    here = lock.Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())
    if here not in lock.TARGETS:
        pytest.skip(f"nothing is locked for {here}")
    packages = locked_for(here)
    installed = {canonicalize_name(each.metadata["Name"]): Version(each.version) for each in distributions()}
    assert installed.pop(canonicalize_name("railbed"))
    for name, version in installed.items():
        assert packages[name].version == version.public, f"{name} {version}: `make clean` and `make setup-dev`"


def test_a_build_of_torch_for_processors_brought_no_libraries_for_gpus() -> None:
    installed = {canonicalize_name(each.metadata["Name"]): each.version for each in distributions()}
    if not installed[canonicalize_name("torch")].endswith("+cpu"):
        pytest.skip("torch is not a build for processors alone")
    assert [name for name in installed if name.startswith(lock.GPU)] == []


def test_virtual_machines_train_with_the_locked_versions() -> None:
    packages = locked_for(lock.Target(PYTHON, "x86_64"))
    for pin in map(Requirement, WHEELS):
        assert str(pin.specifier) == f"=={packages[pin.name].version}", pin


def test_the_lock_files_name_no_place() -> None:
    for name in lock.ORDER:
        assert not re.search(r"://|^\s*-(?!-hash=)|@", lockfile.path_of(name).read_text(), re.MULTILINE), name


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple\n",
        "mine==1.0\n",
        "mine>=1.0 \\\n    --hash=sha256:" + DIGEST + "\n",
        "mine @ https://example.org/mine-1.0-py3-none-any.whl\n",
    ],
)
def test_a_lock_file_with_anything_else_is_refused(line: str, tmp_path: Path) -> None:
    lockfile.write(tmp_path / "some.txt", [make("other")])
    assert lockfile.read(tmp_path / "some.txt") == [make("other")]
    with (tmp_path / "some.txt").open("a") as file:
        file.write(line)
    with pytest.raises(lockfile.Unreadable):
        lockfile.read(tmp_path / "some.txt")


def test_wheels_of_other_machines_are_not_for_ours() -> None:
    arm = lock.Target("3.12", "aarch64")
    assert arm.runs(Wheel("a-1-cp312-cp312-manylinux_2_28_aarch64.whl", ""))
    assert arm.runs(Wheel("a-1-cp39-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl", ""))
    assert arm.runs(Wheel("a-1-py3-none-any.whl", ""))
    for tags in (
        *("cp312-cp312-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_28_aarch64"),
        *("cp312-cp312t-manylinux_2_28_aarch64", "cp312-cp312-musllinux_1_2_aarch64", "cp312-cp312-win_arm64"),
    ):
        assert not arm.runs(Wheel(f"a-1-{tags}.whl", "")), tags
    assert not arm.runs(Wheel("a-1-cp312-cp312-manylinux_2_39_aarch64.whl", ""), OLDEST_GLIBC)


@pytest.mark.parametrize(
    ("uv", "shorter"),
    [
        ("python_full_version >= '3.11' and sys_platform == 'linux'", ""),
        ("python_full_version == '3.11.*' and sys_platform == 'linux'", "python_version == '3.11'"),
        ("python_full_version >= '3.12' and sys_platform == 'linux'", "python_version >= '3.12'"),
        ("python_full_version < '3.14' and sys_platform == 'linux'", "python_version <= '3.13'"),
        ("python_full_version != '3.12.*'", "python_full_version != '3.12.*'"),
        ("platform_machine == 'aarch64'", "platform_machine == 'aarch64'"),
    ],
)
def test_markers_are_shortened_only_if_they_mean_the_same(uv: str, shorter: str) -> None:
    wheel = {"url": "https://example.org/mine-1.0-py3-none-any.whl", "hashes": {"sha256": DIGEST}}
    package = lock._package({"name": "mine", "version": "1.0", "marker": uv, "wheels": [wheel]})
    assert package.marker == shorter
    assert [target.needs(package) for target in lock.TARGETS] == [
        target.needs(make("mine", marker=uv)) for target in lock.TARGETS
    ]


def test_each_file_but_the_first_two_lists_what_those_before_it_do_not() -> None:
    old, new = "python_version == '3.11'", "python_version >= '3.12'"
    numpy, torch, nccl = make("numpy", marker=old), make("torch"), make("nvidia-nccl")
    resolved = {name: [make("rich")] for name in lock.ORDER} | {
        "train": [make("rich"), numpy, torch, nccl],
        "torch": [make("rich"), numpy, torch, nccl],
        "dev": [make("numpy", marker=new), make("mypy"), torch, nccl],
        "bench": [numpy, make("mypy"), make("ansible-core")],
    }
    files = lock.split(resolved)
    names = {name: [package.name for package in packages] for name, packages in files.items() if packages}
    assert names == {
        "build": ["rich"],
        "railbed": ["rich"],
        "train": ["numpy"],
        "torch": ["torch", "nvidia-nccl"],
        "dev": ["numpy", "mypy"],
        "bench": ["ansible-core"],
    }
