"""The files of a lab's machines: keys, command lines, identities, and incomplete images."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from railbed.lab.folder import remove_tree
from railbed.lab.host import HostFault
from railbed.lab.model import Fault, Spec, StoredLab
from railbed.lab.vm import cache, initrd, recipe, rootfs
from railbed.lab.vm.faults import queues
from railbed.lab.vm.kind import numbers_listening
from railbed.lab.vm.qemu.hardware import CLOCK, IDENTITY_BYTES, Hardware, Machine, QemuCable, command, write_identity
from railbed.lab.vm.qemu.machine import describe
from railbed.lab.vm.qemu.state import hardware_of, qemu_version, state_folder
from railbed.lab.vm.rootfs import complaint
from railbed.lab.vm.training import training_folder, unpack

ARM = recipe.ARCHITECTURES["aarch64"]
TCG = Hardware("aarch64", "tcg", 1536)


@pytest.fixture
def lab(tmp_path: Path) -> StoredLab:
    spec = Spec(name="x", kind="vm", nodes=2, rails=2)
    lab = StoredLab(spec=spec, number=7, id="ab12", folder=tmp_path / "lab")
    lab.folder.mkdir()
    for path in (lab.key, *map(lab.host_key, lab.devices)):
        path.write_text(f"private {path.name}\n")
        path.with_name(f"{path.name}.pub").write_text(f"ssh-ed25519 AAAA {path.name}\n")
    return lab


def options(arguments: list[str], name: str) -> list[str]:
    return [value for option, value in itertools.pairwise(arguments) if option == name]


def machine(**changes: object) -> Machine:
    fields = {"name": "railbed-ab12-node1", "hardware": TCG, "image": Path("/i"), "folder": "node1"}
    return Machine(**{**fields, **changes})  # type: ignore[arg-type]


async def test_needed_modules_and_our_own_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "usr/lib/modules/6.1"
    names = ["extra/railbed_dcb.ko", "kernel/fs/ext4/ext4.ko", "kernel/arch/dependency.ko", "kernel/sound/soundcore.ko"]
    for name in names:
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).touch()
    needs: dict[str, list[str]] = {name: [] for name in names} | {names[1]: [names[2]]}
    lines = "".join(f"{name}: {' '.join(values)}\n" for name, values in needs.items())

    async def depmod(_: Path) -> None:
        (modules / "modules.dep").write_text(lines)

    monkeypatch.setattr(rootfs, "depmod", depmod)
    await rootfs.slim_modules(tmp_path)
    assert sorted(str(path.relative_to(modules)) for path in modules.rglob("*.ko")) == sorted(names[:3])


def test_a_key_stays_and_changes_with_every_file(tmp_path: Path) -> None:
    assert recipe.image_key(ARM) == recipe.image_key(ARM)
    copy = tmp_path / "guest"
    shutil.copytree(recipe.GUEST, copy)
    assert recipe.image_key(ARM, copy) == recipe.image_key(ARM)
    (copy / "etc/fstab").write_text("other\n")
    assert recipe.image_key(ARM, copy) != recipe.image_key(ARM)


def test_a_machine_has_two_cards_whatever_is_cabled() -> None:
    arguments = command(machine(cables=[QemuCable("node1-rail0", "node2-rail0")], door="127.77.7.1:2222"))
    assert options(arguments, "-netdev") == [
        f"user,id=mgmt,restrict=on,ipv6=off,guestfwd={CLOCK},hostfwd=tcp:127.77.7.1:2222-:22",
        "dgram,id=rail0,local.type=unix,local.path=node1-rail0,remote.type=unix,remote.path=node2-rail0",
        "hubport,id=rail1,hubid=2",
    ]
    cards = [device for device in options(arguments, "-device") if "id=card" in device]
    assert ["addr=0x5" in cards[0], "addr=0x6" in cards[1]] == [True, True]


def test_nodes_never_write_into_the_saved_memory() -> None:
    (memory,) = [
        option for option in options(command(machine(ram="/a,b/ram")), "-object") if option.startswith("memory")
    ]
    assert memory == "memory-backend-file,id=ram,size=1536M,mem-path=/a,,b/ram,share=off"


@pytest.mark.parametrize(("nodes", "others"), [(1, ["hub"]), (2, ["node2", "node1"]), (3, ["hub"] * 3)])
def test_two_nodes_are_cabled_to_each_other_and_more_to_the_hub(lab: StoredLab, nodes: int, others: list[str]) -> None:
    (lab.folder / cache.USED).write_text("aarch64-key/states/tcg-1536-0123\n")
    lab = StoredLab(spec=Spec(name="x", kind="vm", nodes=nodes), number=7, id="ab12", folder=lab.folder)
    machines = [describe(lab, node, ram=None) for node in lab.nodes]
    assert [node.cables[0].other for node in machines] == [f"{other}-rail0" for other in others]
    assert machines[0].hardware == hardware_of(Path("aarch64-key/states/tcg-1536-0123")) == TCG


def test_an_identity_has_keys_names_and_rails(lab: StoredLab, tmp_path: Path) -> None:
    path = tmp_path / "identity"
    write_identity(lab, lab.nodes[1], path)
    data = path.read_bytes()
    assert (len(data), data[257:262], path.stat().st_mode & 0o777) == (IDENTITY_BYTES, b"ustar", 0o600)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        modes = {entry.name: entry.mode for entry in archive}
        texts = {name: member.read().decode() for name in modes if (member := archive.extractfile(name))}
    assert texts["etc/hostname"] == "node2\n"
    assert texts["etc/ssh/ssh_host_ed25519_key"] == "private node2.host_key\n"
    assert texts["root/.ssh/authorized_keys"] == "ssh-ed25519 AAAA key\n"
    assert texts["etc/railbed/rails"] == "rail0 02:52:07:00:00:02\nrail1 02:52:07:00:01:02\n"
    assert "10.100.7.1 node1 node1-rail0\n10.101.7.1 node1-rail1\n" in texts["etc/hosts"]
    assert "Address=10.101.7.2/24" in texts["etc/systemd/network/30-rail1.network"]
    assert (modes["etc/ssh/ssh_host_ed25519_key"], modes["root/.ssh"]) == (0o600, 0o700)


def test_machine_ids_differ(lab: StoredLab, tmp_path: Path) -> None:
    ids = set()
    for node in lab.nodes:
        write_identity(lab, node, tmp_path / node.name)
        with tarfile.open(tmp_path / node.name) as archive:
            member = archive.extractfile("etc/machine-id")
            assert member
            ids.add(member.read())
    assert len(ids) == 2
    assert all(len(identifier) == 33 for identifier in ids)


@pytest.mark.parametrize(
    ("manifest", "usable"),
    [
        ('{"disk": 4}', True),
        ('{"disk": 5}', False),
        ('{"disk": 4, "gone": 1}', False),
        ("{}", False),
        ("[]", False),
        ('{"disk": 4', False),
        (None, False),
    ],
)
def test_only_a_whole_image_is_used(tmp_path: Path, manifest: str | None, usable: bool) -> None:
    (tmp_path / "disk").write_text("1234")
    if manifest is not None:
        (tmp_path / cache.MANIFEST).write_text(manifest)
    assert cache.is_whole(tmp_path) is usable


def test_an_image_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "key"
    with contextlib.suppress(KeyboardInterrupt), cache.making(folder, ("disk",)) as new:
        (new / "disk").write_text("half")
        raise KeyboardInterrupt
    assert list(folder.parent.iterdir()) == []
    with cache.making(folder, ("disk",)) as new:
        (new / "disk").write_text("all of it")
        (new / "scrap").mkdir()
    assert cache.is_whole(folder)
    assert {path.name for path in folder.iterdir()} == {"disk", cache.MANIFEST}


def test_what_no_lab_uses_goes_and_the_rest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    images = cache.images_folder()
    for state in ("old/states/tcg-8-a", "used/states/tcg-8-a", "used/states/tcg-8-b", "new/states/tcg-8-a"):
        (images / state).mkdir(parents=True)
    for state in ("new/states/tcg-8-old", "new/states/tcg-9-a"):
        (images / state).mkdir()
    (images / ".new-1234").mkdir()
    used = tmp_path / "labs" / "one"
    used.mkdir(parents=True)
    cache.choose(used, images / "used/states/tcg-8-b")
    cache.clear()
    assert {path.name for path in images.iterdir()} == {"old", "used", "new"}
    cache.clear(keep=images / "new/states/tcg-8-a")
    left = {str(path.relative_to(images)) for path in images.glob("*/states/*")}
    assert left == {"used/states/tcg-8-b", "new/states/tcg-8-a", "new/states/tcg-9-a"}
    assert not (images / "old").exists()


def test_what_is_mounted_below_is_never_removed() -> None:
    with pytest.raises(HostFault, match="is a mount"):
        remove_tree(Path("/proc"))
    assert Path("/proc/self").exists()


def test_the_first_file_system_is_an_archive_that_cpio_knows() -> None:
    data = b"".join(initrd.pack([("bin", 0o40755, b""), ("bin/a", 0o100755, b"12345")]))
    assert data.startswith(b"070701" + b"%08x" % 1 + b"%08x" % 0o40755)
    assert (data.index(b"bin/a\0"), len(data) % 4, data.count(b"TRAILER!!!")) == (116 + 110, 0, 1)


def test_modules_are_loaded_after_what_they_need() -> None:
    needs = {
        "kernel/fs/ext4/ext4.ko": ["kernel/fs/jbd2/jbd2.ko", "kernel/lib/crc16.ko"],
        "kernel/fs/jbd2/jbd2.ko": [],
        "kernel/lib/crc16.ko": [],
        "kernel/drivers/block/virtio_blk.ko": ["kernel/drivers/virtio/virtio.ko"],
        "kernel/drivers/virtio/virtio.ko": [],
        "kernel/drivers/other.ko": [],
    }
    order = initrd.load_order(needs)
    assert len(order) == 5
    assert all(order.index(need) < order.index(path) for path in order for need in needs[path])


def test_queues_stand_inside_each_other(lab: StoredLab) -> None:
    def chain(spec: Spec, *faults: Fault) -> list[str]:
        shaped = StoredLab(spec=spec, number=1, id="x", folder=lab.folder, faults=faults)
        made = queues(shaped, shaped.nodes[0], "rail0")
        return [" ".join(line.split()[5:]) for line in made]

    plain = Spec(name="x", kind="vm", nodes=2)
    assert chain(plain, Fault("lose", "rail1", 5.0)) == []
    assert chain(plain, Fault("lose", "rail0", 5.0)) == ["root handle 1: netem limit 10000 loss 5%"]
    both = Spec(name="x", kind="vm", nodes=2, rate=10**9, delay=50e-6)
    netem, tbf, red = chain(both, Fault("mark", "rail0"), Fault("lose", "rail0", 0.1))
    assert netem == "root handle 1: netem limit 10000 delay 50us loss 0.1%"
    assert tbf.startswith("parent 1:1 handle 2: tbf rate 20000000bit")
    assert red.startswith("parent 2:1 handle 3: red ")


def test_numbers_in_use_are_read_from_the_kernels_table() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 01074D7F:08AE 00000000:0000 0A 00000000:00000000\n"
        "   1: 01094D7F:08AE 0100007F:1234 01 00000000:00000000\n"
        "   2: 0100007F:0016 00000000:0000 0A 00000000:00000000\n"
    )
    assert list(numbers_listening(table)) == [7]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "I: start\nErr:1 http://m x\nE: Failed to fetch http://m/x  Could not connect\nE: mmdebstrap\n",
            "Could not connect",
        ),
        (
            "I: start\ntar: ./usr: Cannot mkdir: No space left on device\nE: mmdebstrap failed to run\n",
            "No space left on device",
        ),
        ("I: start\nsomething odd\n", "something odd"),
        ("", ""),
    ],
)
def test_the_line_that_says_most_is_reported(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log)
    assert words in complaint(tmp_path / "log")


def test_packages_and_modules_are_each_named_once() -> None:
    assert len(set(recipe.PACKAGES)) == len(recipe.PACKAGES)
    assert json.dumps(recipe.KEPT_MODULES) == json.dumps(sorted(recipe.KEPT_MODULES))


@pytest.mark.parametrize(
    ("message", "fine"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", True),
        ("QEMU emulator version 10.0.2\n", True),
        ("QEMU emulator version 6.2.0 (Debian 1:6.2+dfsg-2ubuntu6)\n", False),
        ("something else\n", True),
    ],
)
async def test_a_qemu_that_is_too_old_is_refused(message: str, fine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_: list[str]) -> str:
        return message

    monkeypatch.setattr("railbed.lab.vm.qemu.state.run", run)
    if fine:
        assert await qemu_version(ARM) == message.splitlines()[0]
    else:
        with pytest.raises(HostFault, match=r"QEMU 6\.2 is too old"):
            await qemu_version(ARM)


def test_a_saved_machine_belongs_to_its_qemu_and_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    first = state_folder("7.2", Hardware("aarch64", "tcg", 512))
    assert first == state_folder("7.2", Hardware("aarch64", "tcg", 512))
    assert hardware_of(first) == Hardware("aarch64", "tcg", 512)
    others = [
        state_folder("7.3", Hardware("aarch64", "tcg", 512)),
        state_folder("7.2", Hardware("aarch64", "tcg", 768)),
    ]
    assert len({first, *others, state_folder("7.2", Hardware("aarch64", "kvm", 512))}) == 4


def test_a_machine_that_trains_has_a_disk_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path))
    trains = Hardware("aarch64", "tcg", 512, "0123abcd")
    state = state_folder("7.2", trains)
    assert hardware_of(state) == trains
    assert state != state_folder("7.2", Hardware("aarch64", "tcg", 512))
    assert not [drive for drive in options(command(machine()), "-drive") if "training" in drive]
    (drive,) = [drive for drive in options(command(machine(hardware=trains)), "-drive") if "training" in drive]
    assert drive == "if=none,id=training,file=/i/training/0123abcd/training.raw,format=raw,readonly=on"
    image = state.parent.parent
    disks = [training_folder(image, key) for key in ("0123abcd", "old")]
    for folder in (state, state.with_name("tcg-512-0123"), *disks):
        folder.mkdir(parents=True)
    cache.clear(keep=state)
    assert [path.name for path in disks[0].parent.iterdir()] == ["0123abcd"]
    assert state.with_name("tcg-512-0123").is_dir()


def test_a_wheel_is_unpacked_into_an_environment(tmp_path: Path) -> None:
    wheel = io.BytesIO()
    names = ("pkg/a.py", "pkg-1.data/data/lib/libx.so", "pkg-1.data/scripts/run", "pkg-1.data/purelib/b.py")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (*names, "../outside", "pkg-1.data/data/../../outside"):
            archive.writestr(name, name)
    with zipfile.ZipFile(wheel) as archive:
        unpack(archive, tmp_path / "venv", tmp_path / "venv/site-packages")
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        f"venv/{path}" for path in ("site-packages/pkg/a.py", "lib/libx.so", "bin/run", "site-packages/b.py")
    }
