"""Machines of both architectures: QEMU's command line, KVM or emulation, and how images are made and stored."""

from __future__ import annotations

import errno
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.events import event

from railbed.cli.screens.lab import show_status
from railbed.errors import ToolMissing, UsageError
from railbed.lab.model import AcceleratorName, Spec
from railbed.lab.netns.kind import NetnsKind
from railbed.lab.vm import cache, foreign, kind, recipe, rootfs
from railbed.lab.vm.image import image_folder
from railbed.lab.vm.qemu.hardware import Hardware, Machine, command
from railbed.lab.vm.qemu.state import hardware_of, state_folder

ARM, X86 = recipe.ARCHITECTURES["aarch64"], recipe.ARCHITECTURES["x86_64"]
NOTE_UNPACKED = recipe.HERE / "note-unpacked.sh"


def on(monkeypatch: pytest.MonkeyPatch, host: str, *, kvm: OSError | None = None) -> None:
    monkeypatch.setenv("RAILBED_CACHE", "/nonexistent")
    monkeypatch.setattr("platform.machine", lambda: host)
    monkeypatch.setattr("railbed.lab.vm.recipe._kvm_error", lambda: kvm)


def option(arguments: list[str], name: str) -> str:
    (value,) = (value for option, value in itertools.pairwise(arguments) if option == name)
    return value


def qemu(arch: recipe.Architecture, accelerator: AcceleratorName) -> list[str]:
    hardware = Hardware(arch.name, accelerator, 512)
    return command(Machine(name="n", hardware=hardware, image=Path("/i"), folder="n"))


@pytest.mark.parametrize(
    ("host", "guest", "accelerator", "expected"),
    [
        ("x86_64", X86, "kvm", ("qemu-system-x86_64", "q35", "kvm", "host", "ttyS0")),
        ("x86_64", X86, "tcg", ("qemu-system-x86_64", "q35", "tcg,thread=multi,tb-size=256", "max", "ttyS0")),
        (
            "x86_64",
            ARM,
            "tcg",
            ("qemu-system-aarch64", "virt", "tcg,thread=multi,tb-size=256", "neoverse-n1", "ttyAMA0"),
        ),
        ("aarch64", ARM, "kvm", ("qemu-system-aarch64", "virt,gic-version=host", "kvm", "host", "ttyAMA0")),
        (
            "aarch64",
            ARM,
            "tcg",
            ("qemu-system-aarch64", "virt", "tcg,thread=multi,tb-size=256", "neoverse-n1", "ttyAMA0"),
        ),
        ("aarch64", X86, "tcg", ("qemu-system-x86_64", "q35", "tcg,thread=single,tb-size=256", "max", "ttyS0")),
        ("riscv64", X86, "tcg", ("qemu-system-x86_64", "q35", "tcg,thread=single,tb-size=256", "max", "ttyS0")),
    ],
)
def test_the_command_line_on_every_host(
    host: str,
    guest: recipe.Architecture,
    accelerator: AcceleratorName,
    expected: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on(monkeypatch, host)
    monkeypatch.setattr("os.sysconf", lambda _: 64)
    arguments = qemu(guest, accelerator)
    program, board, accel, cpu, console = expected
    assert arguments[0] == program
    assert option(arguments, "-machine") == f"{board},memory-backend=ram"
    assert (option(arguments, "-accel"), option(arguments, "-cpu")) == (accel, cpu)
    assert option(arguments, "-append").startswith(f"console={console} root=/dev/vda")


def test_a_host_with_pages_as_cache_lines_gets_more_room_for_translated_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: 4096)
    assert option(qemu(ARM, "tcg"), "-accel").endswith("tb-size=1024")


@pytest.mark.parametrize("arch", [ARM, X86], ids=lambda arch: arch.name)
def test_kvm_runs_guests_of_the_hosts_own_kind(arch: recipe.Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, arch.name)
    assert recipe.accelerators(arch) == ["kvm", "tcg"]
    assert not recipe.why_emulated(arch)
    (other,) = {ARM, X86} - {arch}
    assert recipe.accelerators(other) == ["tcg"]
    assert f"this machine is {arch.name}, so that KVM cannot run {other.name}" in recipe.why_emulated(other)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "`sudo usermod -aG kvm $USER` and a new login"),
        (errno.ENOENT, "there is no KVM here (/dev/kvm: No such file or directory)"),
        (errno.EPERM, "there is no KVM here (/dev/kvm: Operation not permitted)"),
    ],
)
def test_without_kvm_the_lab_emulates_and_says_why(number: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "x86_64", kvm=OSError(number, ""))
    assert recipe.accelerators(X86) == ["tcg"]
    reason = recipe.why_emulated(X86)
    assert reason.startswith("emulated, which is many times slower: ")
    assert words in reason
    assert "\n" not in reason


@pytest.mark.parametrize(("mode", "number"), [(0o000, errno.EACCES), (None, errno.ENOENT)])
def test_a_device_is_opened_as_qemu_would_open_it(
    tmp_path: Path, mode: int | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "kvm"
    monkeypatch.setattr(recipe, "KVM", device)
    if mode is not None:
        device.touch(mode)

        def refuse(*_: object) -> int:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("os.open", refuse)  # root may open everything
    error = recipe._kvm_error()
    assert error is not None
    assert error.errno == number
    monkeypatch.undo()
    monkeypatch.setattr(recipe, "KVM", Path("/dev/null"))
    assert recipe._kvm_error() is None


def test_a_machine_saved_under_kvm_is_not_continued_on_another_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    kvm, tcg = Hardware("x86_64", "kvm", 512), Hardware("x86_64", "tcg", 512)
    before = state_folder("7.2", kvm), state_folder("7.2", tcg)
    monkeypatch.setattr("platform.release", lambda: "another kernel")
    assert state_folder("7.2", kvm) != before[0]
    assert state_folder("7.2", tcg) == before[1]


def test_every_architecture_has_an_image_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    states = {arch: state_folder("7.2", Hardware(arch.name, "tcg", 512)) for arch in (ARM, X86)}
    assert {hardware_of(state).arch for state in states.values()} == {"aarch64", "x86_64"}
    stale = [cache.images_folder() / "0123456789abcdef", image_folder(X86).with_name("x86_64-0123")]
    for folder in (*states.values(), *(image / "states" for image in stale)):
        folder.mkdir(parents=True)
    cache.clear(keep=states[X86])
    assert all(state.is_dir() for state in states.values())
    assert not any(image.exists() for image in stale)


def test_an_unknown_host_needs_an_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="riscv64") as caught:
        recipe.architecture(None)
    assert "--arch aarch64 or x86_64" in (caught.value.hint or "")
    assert recipe.architecture("x86_64") is X86


@pytest.mark.parametrize(("arch", "package"), [(ARM, "qemu-system-arm"), (X86, "qemu-system-x86")])
def test_a_missing_qemu_is_named_with_its_package(
    arch: recipe.Architecture, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railbed.lab.host.program_path", lambda name: None if name.startswith("qemu-system") else name)
    with pytest.raises(ToolMissing, match=arch.qemu) as caught:
        kind.VmKind().admit(Spec(name="x", kind="vm", nodes=2, arch=arch.name))
    assert f"apt-get install --no-install-recommends {package}`" in (caught.value.hint or "")


def test_namespaces_cannot_emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(UsageError, match="aarch64") as caught:
        NetnsKind().admit(Spec(name="x", kind="netns", nodes=2, arch="x86_64"))
    assert caught.value.hint == "--kind vm emulates x86_64"


def test_status_names_the_processor_where_it_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"kind": "vm", "arch": "x86_64", "nodes": 2, "rails": 1, "cluster": "c", "states": {}, "faults": []}
    show_status([event(name="lab", subject="a", message="up", data=data)])
    show_status([event(name="lab", subject="b", message="up", data={**data, "arch": None})])
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[2]] == ["a  vm x86_64, 2 nodes, 1 rail, up", "b  vm, 2 nodes, 1 rail, up"]


@pytest.mark.parametrize("arch", [ARM, X86], ids=lambda arch: arch.name)
def test_packages_for_another_processor_are_only_extracted(
    arch: recipe.Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    arguments = rootfs._mmdebstrap(Path("/r"), arch)
    assert f"--architectures={arch.debian}" in arguments
    assert ("--variant=minbase" if arch is ARM else "--variant=extract") in arguments
    assert ("--skip=check/qemu" in arguments) is (arch is X86)
    assert f"linux-image-{arch.debian}" in " ".join(arguments)
    assert (f"sh {rootfs.BUILD_MODULE}" in " ".join(arguments)) is (arch is ARM)


def test_a_foreign_system_boots_into_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "aarch64")
    arguments = foreign.command(X86)
    assert option(arguments, "-append").endswith(f" init=/{foreign.SCRIPT}")
    assert "-no-reboot" in arguments
    assert f'echo "{foreign.DONE}"' in (recipe.HERE / foreign.SCRIPT).read_text()


def test_programs_keep_the_bits_that_a_copy_loses(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    sudo = tmp_path / "usr/bin/sudo"
    sudo.touch(0o755)
    (tmp_path / foreign.MODES).write_text("4755 usr/bin/sudo\n")
    foreign.restore_modes(tmp_path)
    assert sudo.stat().st_mode & 0o7777 == 0o4755
    assert not (tmp_path / foreign.MODES).exists()
    assert f">/{foreign.MODES}" in (recipe.HERE / foreign.SCRIPT).read_text()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["Setting up a", "dpkg: error processing package a (--configure):", " exit 1", "done"],
            "dpkg: error processing",
        ),
        (["booting", "[    1.0] Kernel panic - not syncing: VFS", "[ 1.1] ---[ end"], "Kernel panic"),
        (["booting", ""], "booting"),
        ([], "the machine printed nothing"),
    ],
)
def test_a_failed_set_up_is_reported_in_the_words_of_the_machine(lines: list[str], words: str) -> None:
    assert words in foreign.complaint(lines)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="writes packages with dpkg-deb")
def test_dpkg_believes_that_it_unpacked_the_packages(tmp_path: Path) -> None:
    root, archives = tmp_path / "root", tmp_path / "root/var/cache/apt/archives"
    archives.mkdir(parents=True)
    for name, multi in (("plain", "no"), ("shared", "same")):
        package = tmp_path / name
        (package / "DEBIAN").mkdir(parents=True)
        (package / "etc").mkdir()
        (package / f"etc/{name}.conf").write_text("x\n")
        fields = (f"Package: {name}", "Version: 1", "Architecture: amd64", f"Multi-Arch: {multi}", "Maintainer: x")
        control = "\n".join((*fields, "Description: x", " y", ""))
        (package / "DEBIAN/control").write_text(control)
        (package / "DEBIAN/conffiles").write_text(f"/etc/{name}.conf\n")
        (package / "DEBIAN/postinst").write_text("#!/bin/sh\n")
        (package / "DEBIAN/postinst").chmod(0o755)
        built = ["dpkg-deb", "--root-owner-group", "--build", str(package), str(archives / f"{name}_1_amd64.deb")]
        subprocess.run(built, check=True, capture_output=True)
    subprocess.run(["sh", NOTE_UNPACKED, root, "amd64"], check=True)
    admin = f"--admindir={root}/var/lib/dpkg"
    query = ["dpkg-query", admin, "--show", "--showformat=${Package} ${Status}|${Conffiles}|\n"]
    shown = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    unpacked = [f"{name} install ok unpacked| /etc/{name}.conf newconffile|" for name in ("plain", "shared")]
    assert shown.splitlines() == unpacked
    listed = subprocess.run(["dpkg-query", admin, "--listfiles", "plain"], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["/.", "/etc", "/etc/plain.conf"]
    assert (root / "var/lib/dpkg/info/shared:amd64.postinst").stat().st_mode & 0o111
