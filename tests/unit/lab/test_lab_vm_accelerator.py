"""KVM or emulation: a KVM that boots no guest costs seconds, once, and the user chooses with --accelerator."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import qemu

from railbed.errors import UsageError
from railbed.lab.host import HostFault
from railbed.lab.model import AcceleratorName, Spec
from railbed.lab.netns.kind import NetnsKind
from railbed.lab.vm import cache, recipe
from railbed.lab.vm.image import DISK, image_folder
from railbed.lab.vm.qemu import state
from railbed.lab.vm.qemu.qmp import NotBooted
from railbed.model import events
from railbed.model.record import Event

HANG = 60.0
Prepare = Callable[..., list[Event]]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the accelerator of each start of the program that is in place of QEMU."""
    qemu.write_programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv(qemu.CALLS, str(tmp_path / "calls"))
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(recipe, "KVM", Path("/dev/null"))
    monkeypatch.setattr(state, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(state, "SETTLE_SECONDS", 0.0)
    if platform.machine() not in recipe.ARCHITECTURES:
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
    image = image_folder(recipe.architecture(None))
    image.mkdir(parents=True)
    (image / DISK).touch()
    (image / cache.MANIFEST).write_text(json.dumps({DISK: 0}))
    return tmp_path / "calls"


@pytest.fixture
def prepare(calls: Path, tmp_path: Path) -> Prepare:
    """Prepare a lab of one size; return what it reports."""
    calls.touch()
    lab = tmp_path / "lab"
    lab.mkdir()

    async def events_of(memory: int, accelerator: AcceleratorName | None) -> list[Event]:
        async with asyncio.timeout(HANG):
            arch = recipe.architecture(None)
            return [event async for event in state.prepare(lab, arch, memory, accelerator, training=False)]

    return lambda memory, accelerator=None: asyncio.run(events_of(memory, accelerator))


def accelerator_of(calls: Path) -> str:
    return state.hardware_of(cache.find_saved_machine(calls.with_name("lab"))).accelerator


def test_a_kvm_whose_guest_prints_nothing_is_tried_once_for_all_sizes(prepare: Prepare, calls: Path) -> None:
    """However busy the guest keeps a processor."""
    (emulated,) = (event for event in prepare(512) if isinstance(event, events.LabEmulated))
    reason = (
        "emulated, which is many times slower: KVM did not boot a guest here: the guest printed nothing for 1 s; "
        "--accelerator kvm tries it again"
    )
    assert emulated.message == reason
    assert accelerator_of(calls) == "tcg"
    assert recipe.why_emulated(recipe.architecture(None)) == reason
    prepare(1024)
    assert calls.read_text().split() == ["kvm", "tcg", "tcg"]


def test_a_kvm_that_failed_on_another_machine_is_tried(
    prepare: Prepare, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(512)
    monkeypatch.setattr("platform.release", lambda: "another kernel")
    prepare(1024)
    assert calls.read_text().split() == ["kvm", "tcg", "kvm", "tcg"]


def test_the_user_chooses(prepare: Prepare, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(512, "tcg")
    assert calls.read_text().split() == ["tcg"]
    with pytest.raises(NotBooted, match="the guest printed nothing for 1 s") as caught:
        prepare(512, "kvm")
    assert caught.value.hint.startswith("--accelerator tcg")
    prepare(1024)
    monkeypatch.setenv(qemu.KVM_WORKS, "1")
    prepare(2048)
    assert accelerator_of(calls) == "tcg"
    prepare(2048, "kvm")
    assert accelerator_of(calls) == "kvm"
    prepare(4096)
    assert accelerator_of(calls) == "kvm", "KVM that booted a guest is no longer avoided"


def test_kvm_that_is_not_there_cannot_be_chosen(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "KVM", tmp_path / "none")
    with pytest.raises(HostFault, match=r"--accelerator kvm is not possible: there is no KVM here \(.*none: No such"):
        prepare(512, "kvm")


def test_namespaces_need_no_accelerator() -> None:
    with pytest.raises(UsageError, match="need no accelerator"):
        NetnsKind().admit(Spec(name="x", kind="netns", nodes=2, accelerator="tcg"))
