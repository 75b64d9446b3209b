"""Files on nodes: only what railbed put there is used, no matter what another user of the node has prepared."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from railbed.fleet import Fleet
from railbed.launch.files.ship import ARCHIVE, Parcel, Shipped, archive, module_command, own_code, parcel, ship
from railbed.model.cluster import Cluster, Node
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support.cli import railbed
from tests.support.disks import small_disk
from tests.support.strangers import as_stranger, open_folder

RUN = "runs/20260101-000000-abcd"
PLANTED = "open({mark!r}, 'w').write('planted code ran')"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder such as /tmp."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def files(tmp_path: Path) -> Parcel:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "greet.py").write_text("print('ours')\n")
    (tmp_path / "source" / "data").write_bytes(bytes(range(256)) * 999)
    code = archive({"greet.py": tmp_path / "source" / "greet.py"})
    return parcel("code", {ARCHIVE: code, "deep/data": tmp_path / "source" / "data"})


def sent(files: Parcel) -> dict[str, bytes]:
    """Return the content of a parcel's files."""
    return {
        name: content if isinstance(content, bytes) else content.read_bytes() for name, content in files.files.items()
    }


def put(workdir: Path | str, *parcels: Parcel, python: str = sys.executable) -> Shipped:
    """Put parcels on this machine."""
    cluster = Cluster(name="here", nodes={"here": Node(host="local", python=python)})

    async def shipping() -> Shipped:
        async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=20.0) as fleet:
            return await ship(fleet, {"here": (python,)}, str(workdir), parcels, folder=RUN)

    return asyncio.run(asyncio.wait_for(shipping(), 60))


def refusal(workdir: Path, *parcels: Parcel) -> tuple[str, str]:
    """Put parcels, and return why that was refused and what to do."""
    shipped = put(workdir, *parcels)
    assert shipped.bases == {}
    return shipped.failed["here"].message, shipped.failed["here"].hint


def content(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def greet(base: str, files: Parcel, cwd: Path | None = None) -> str:
    """Run what was put there as a node would, and return its output."""
    command = module_command([sys.executable], f"{base}/{files.name}/{ARCHIVE}", "greet", [])
    return shell(command, cwd)


def shell(command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(["/bin/sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_files_get_there_whole_and_for_nobody_else(tmp_path: Path, files: Parcel) -> None:
    before = os.umask(0)
    try:
        base = Path(put(tmp_path / "new" / "work", files).bases["here"])
    finally:
        os.umask(before)
    assert base == tmp_path / "new" / "work" / ".railbed"
    assert content(base / files.name) == sent(files)
    modes = {path: path.stat().st_mode & 0o777 for path in (base.parent, base, *base.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert (base / RUN / "here").is_dir()


def test_what_is_there_is_not_sent_again(tmp_path: Path, files: Parcel) -> None:
    base = Path(put(tmp_path, files).bases["here"])
    numbers = {path: path.stat().st_ino for path in (base / files.name).rglob("*")}
    (tmp_path / "source" / "data").unlink()  # sending again would fail
    assert put(tmp_path, files).bases == {"here": str(base)}
    assert {path: path.stat().st_ino for path in (base / files.name).rglob("*")} == numbers


def truncate(folder: Path) -> None:
    (folder / ARCHIVE).write_bytes((folder / ARCHIVE).read_bytes()[:-30])


def plant_byte_code(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / f"greet.{sys.implementation.cache_tag}.pyc").write_bytes(b"\0" * 16)


def add_a_module(folder: Path) -> None:
    (folder / "json.py").write_text("print('not ours')\n")


def add_an_empty_folder(folder: Path) -> None:
    (folder / "torch").mkdir()


def remove_a_file(folder: Path) -> None:
    (folder / "deep" / "data").unlink()


@pytest.mark.parametrize("damage", [truncate, plant_byte_code, add_a_module, add_an_empty_folder, remove_a_file])
def test_what_is_not_as_it_was_sent_is_replaced(tmp_path: Path, files: Parcel, damage: object) -> None:
    base = put(tmp_path, files).bases["here"]
    assert callable(damage)
    damage(Path(base) / files.name)
    assert put(tmp_path, files).bases == {"here": base}
    assert content(Path(base) / files.name) == sent(files)
    assert sorted(path.name for path in Path(base, files.name).iterdir()) == ["deep", ARCHIVE]
    assert greet(base, files) == "ours\n"


def test_a_transfer_that_was_cut_short_is_cleared(tmp_path: Path, files: Parcel) -> None:
    base = Path(put(tmp_path, files).bases["here"])
    (base / "new.0123456789abcdef").mkdir()
    (base / "new.0123456789abcdef" / "half").write_bytes(b"1")
    put(tmp_path, files)
    assert sorted(path.name for path in base.iterdir()) == ["code", "compiled", "lock", "runs"]


def test_planted_code_does_not_run(shared: Path, files: Parcel) -> None:
    """What the attacker did: our folder under the right name, before we come."""
    mark = shared / "mark"
    planted = PLANTED.format(mark=str(mark))
    as_stranger('mkdir -p "$1"; printf %s "$2" >"$1/greet.py"', shared / ".railbed" / files.name, planted)
    message, hint = refusal(shared, files)
    assert message == f"{shared}/.railbed belongs to nobody, and the login user is root: it is not used"
    assert "training.workdir" in hint
    assert not mark.exists()


def test_a_folder_below_ours_that_is_not_ours_is_refused(shared: Path, files: Parcel) -> None:
    base = Path(put(shared, files).bases["here"])
    for path in (
        base / "compiled",
        base / "code",
        base / files.name,
        base / files.name / ARCHIVE,
        base / RUN,
        base / RUN / "here",
    ):
        os.chown(path, 65534, 65534)
        message, _ = refusal(shared, files)
        assert message.startswith(f"{path} belongs to nobody"), message
        os.chown(path, 0, 0)
    assert "here" in put(shared, files).bases


@pytest.mark.parametrize("below", ["", "code", "{name}", "{name}/deep", f"{{name}}/{ARCHIVE}", RUN])
def test_what_others_can_write_to_is_refused(tmp_path: Path, files: Parcel, below: str) -> None:
    base = Path(put(tmp_path, files).bases["here"])
    path = base / below.format(name=files.name)
    path.chmod(path.stat().st_mode | 0o002)
    message, hint = refusal(tmp_path, files)
    assert message.startswith(f"{path} can be written by everybody (mode 0"), message
    assert f"`chmod -R go-w {path}`" in hint


def test_a_link_in_place_of_our_folder_is_refused(shared: Path, tmp_path: Path, files: Parcel) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    as_stranger('ln -s "$2" "$1"', shared / ".railbed", victim)
    message, _ = refusal(shared, files)
    assert message.startswith(f"{shared}/.railbed belongs to nobody")
    assert list(victim.iterdir()) == []


def test_a_link_of_ones_own_leads_to_a_larger_disk(tmp_path: Path, files: Parcel) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".railbed").symlink_to(tmp_path / "large" / "railbed")
    assert put(tmp_path / "work", files).bases["here"] == str(tmp_path / "large" / "railbed")


def test_a_link_below_our_folder_is_refused(tmp_path: Path, files: Parcel) -> None:
    base = Path(put(tmp_path, files).bases["here"])
    (base / RUN / "here" / "checkpoints").symlink_to("/etc")
    message, _ = refusal(tmp_path, files)
    assert message == f"{base}/{RUN}/here/checkpoints is a link, which railbed never creates there"


@pytest.mark.parametrize("mode", [0o777, 0o2777])
def test_a_folder_where_others_can_replace_ours_is_refused(files: Parcel, mode: int) -> None:
    with open_folder(mode) as folder:
        message, hint = refusal(folder / "mine", files)
    assert message == f"{folder} can be written by everybody, who could replace what is in it"
    assert hint == f"set `training.workdir` to one of your own folders that is not below {folder}"


def test_a_folder_of_local_user_is_refused(shared: Path, files: Parcel) -> None:
    as_stranger('mkdir "$1"', shared / "theirs")
    message, _ = refusal(shared / "theirs" / "mine", files)
    assert message == f"{shared}/theirs belongs to nobody, who could replace what is in it"


def test_a_group_of_ones_own_may_write_and_another_may_not(tmp_path: Path, files: Parcel) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    folder.chmod(0o775)
    assert "here" in put(folder, files).bases
    if os.geteuid() == 0:
        os.chown(folder, 0, 65534)
        assert refusal(folder, files)[0].startswith(f"{folder} can be written by the group nogroup")


def test_modules_in_the_current_folder_are_not_loaded(tmp_path: Path, files: Parcel) -> None:
    base = put(tmp_path / "work", files).bases["here"]
    (tmp_path / "cwd").mkdir()
    for name in ("greet", "json", "pathlib", "encodings", "sitecustomize"):
        (tmp_path / "cwd" / f"{name}.py").write_text("raise SystemExit('not ours')\n")
    assert greet(base, files, tmp_path / "cwd") == "ours\n"
    # The keeper itself is as deaf: to the folder, and to PYTHONPATH.
    here = Path.cwd()
    os.chdir(tmp_path / "cwd")
    try:
        os.environ["PYTHONPATH"] = str(tmp_path / "cwd")
        assert put(tmp_path / "work", files).bases == {"here": base}
    finally:
        del os.environ["PYTHONPATH"]
        os.chdir(here)


def test_no_byte_code_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    code = own_code()
    base = put(tmp_path, code).bases["here"]
    command = module_command(
        [sys.executable], f"{base}/{code.name}/{ARCHIVE}", "railbed.train.state.verify", [str(tmp_path)]
    )
    assert shell(command) == '{"good": [], "damaged": []}\n'
    assert not list(Path(base).rglob("__pycache__"))
    assert "ONEDNN_JIT_PROFILE=0" in command  # otherwise every rank leaves /tmp/perf-PID.map


def test_a_python_that_is_not_there_is_named(tmp_path: Path, files: Parcel) -> None:
    error = put(tmp_path, files, python="/no/such/python").failed["here"]
    assert "not found" in error.message
    assert "/no/such/python" in error.hint


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    with small_disk(tmp_path / "small") as folder:
        yield folder


def test_a_full_disk_is_named_before_anything_is_sent(disk: Path, files: Parcel) -> None:
    (disk / "other").write_bytes(bytes(5 << 20))
    message, hint = refusal(disk, files)
    assert message == f"the disk under {disk}/.railbed is full: 3.1 MB are free, 4.6 MB are needed"
    assert hint == "free some space, or set `training.workdir` to another disk"
    (disk / "other").unlink()
    assert "here" in put(disk, files).bases


def test_a_disk_without_inodes_is_named(disk: Path, files: Parcel) -> None:
    for number in range(520):
        (disk / str(number)).touch()
    message, _ = refusal(disk, files)
    assert "is full: " in message
    assert "files (inodes) are free, 100 are needed" in message


def test_a_disk_that_fills_up_while_files_are_sent_keeps_nothing_of_them(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Path(put(disk).bases["here"])
    (tmp_path / "large").write_bytes(bytes(12 << 20))
    large = parcel("tokens", {"large": tmp_path / "large"})
    # As if somebody else filled it meanwhile: it had room when it was asked.
    monkeypatch.setattr(
        Parcel, "as_message", lambda self: {"name": self.name, "digest": self.digest, "bytes": 0, "files": 1}
    )
    message, _ = refusal(disk, large)
    assert message.startswith(f"the disk under {base} is full: ")
    assert [path.name for path in base.iterdir() if path.name.startswith("new.")] == []
    assert list((base / "tokens").iterdir()) == []
    monkeypatch.undo()
    assert "is full" in refusal(disk, large)[0]


@pytest.mark.whole
def test_training_in_a_folder_such_as_tmp_runs_no_planted_code(shared: Path, tmp_path: Path) -> None:
    """From the command line: another user has put an agent of their own under the name that ours would have."""
    mark = shared / "mark"
    agent = shared / ".railbed" / own_code().name / "railbed" / "launch" / "node" / "agent.py"
    planted = PLANTED.format(mark=str(mark))
    as_stranger('mkdir -p "${1%/*}"; printf %s "$2" >"$1"; chmod -R a+rwX "$3"', agent, planted, shared / ".railbed")
    (tmp_path / "cluster.yaml").write_text(
        f"name: here\nnodes: {{here: {{host: local, python: {sys.executable}}}}}\ntraining: {{workdir: {shared}}}\n"
    )
    (tmp_path / "text.txt").write_text("".join(f"{n} green bottles hang on wall {n * n % 97}\n" for n in range(900)))
    settings = ("data.files=[text.txt]", "model.vocabulary=300", "model.context=32", "steps=1")
    small = [word for setting in settings for word in ("--set", setting)]
    done = railbed(tmp_path, "train", "tiny", *small, "--no-check", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert not mark.exists()
    assert done.code == 3
    assert f"{shared}/.railbed belongs to nobody, and the login user is root: it is not used" in done.err
    assert "remove it, or set `training.workdir` to one of your own folders" in done.err
