"""Which build of torch is installed: that of the package index as locked, or one from a folder that only root or this
user can write to.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.strangers import open_folder
from tests.support.wheels import sha256_of, write_wheel
from tools import torch_build
from tools.lockfile import Package, Wheel

TORCH = Package("torch", "9.9.0", "", (Wheel("torch-9.9.0-py3-none-any.whl", "0" * 64),))
LIBRARY = Package("nvidia-nccl", "2.0", "", (Wheel("nvidia_nccl-2.0-py3-none-any.whl", "1" * 64),))
LOCKED = [LIBRARY, TORCH]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into; no torch is installed."""
    folder = tmp_path / "wheels"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(torch_build, "_installed_version", lambda: "")
    return folder


def test_a_local_build_is_admitted_by_its_content_and_needs_no_libraries_for_gpus(store: Path) -> None:
    wheel = write_wheel(store, "torch", "9.9.0+cpu", "filelock")
    sentence, packages = torch_build.choose(LOCKED)
    assert packages == [Package("torch", "9.9.0+cpu", "", (Wheel(wheel.name, sha256_of(wheel)),))]
    assert sentence == f"torch 9.9.0+cpu comes from {wheel} (SHA-256 {sha256_of(wheel)})"


def test_a_local_build_for_gpus_gets_their_libraries_as_locked(store: Path) -> None:
    write_wheel(store, "torch", "9.9.0", "filelock", "Nvidia_NCCL==2.0; platform_system == 'Linux'")
    _, packages = torch_build.choose(LOCKED)
    assert [package.name for package in packages] == ["torch", "nvidia-nccl"]


def test_without_a_local_build_of_that_version_the_index_has_it(store: Path) -> None:
    write_wheel(store, "torch", "9.8.0+cpu")
    write_wheel(store, "torchvision", "9.9.0")
    sentence, packages = torch_build.choose(LOCKED)
    assert packages == LOCKED
    assert sentence == "torch 9.9.0 comes from the package index, with its libraries for GPUs"


def test_an_installed_build_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_build, "_installed_version", lambda: "9.9.0+cpu")
    monkeypatch.setattr(torch_build, "find_build", pytest.fail)
    assert torch_build.choose(LOCKED) == ("torch 9.9.0+cpu is installed already", ())


def test_a_build_that_others_can_replace_is_refused_unless_it_is_locked(store: Path) -> None:
    wheel = write_wheel(store, "torch", "9.9.0+cpu")
    store.chmod(0o777)
    with pytest.raises(torch_build.Refused) as caught:
        torch_build.choose(LOCKED)
    assert str(caught.value) == (
        f"torch 9.9.0+cpu in {wheel} cannot be trusted: others can write to {store} (`chmod go-w {store}` prevents it)"
    )
    same = Package("torch", "9.9.0", "", (Wheel(wheel.name, sha256_of(wheel)),))
    assert torch_build.choose([same])[1][0].version == "9.9.0+cpu"


def test_every_folder_above_counts_and_links_are_followed(tmp_path: Path) -> None:
    with open_folder(0o777) as elsewhere:
        wheel = write_wheel(elsewhere, "torch", "9.9.0+cpu")
        link = tmp_path / "torch.whl"
        link.symlink_to(wheel)
        (reason,) = torch_build.obstacles(link)
        assert reason.startswith(f"others can write to {elsewhere} ")
        below = elsewhere / "below"
        below.mkdir(mode=0o755)
        (reason,) = torch_build.obstacles(wheel.rename(below / wheel.name))
        assert reason.startswith(f"others can write to {elsewhere} ")
        elsewhere.chmod(0o1777)  # as /tmp: others cannot replace what is in it
        assert list(torch_build.obstacles(below / wheel.name)) == []


def test_a_build_of_another_account_is_refused(store: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another account needs root")
    wheel = write_wheel(store, "torch", "9.9.0+cpu")
    os.chown(wheel, 65534, -1)
    assert list(torch_build.obstacles(wheel)) == [f"{wheel} belongs to another account (number 65534)"]


def test_a_pip_that_fails_is_not_taken_for_an_absent_build(store: Path) -> None:
    (store / "torch-9.9.0+cpu-py3-none-any.whl").write_bytes(b"not a wheel")
    with pytest.raises(torch_build.Refused, match="pip cannot look for a local build of torch: "):
        torch_build.choose(LOCKED)
