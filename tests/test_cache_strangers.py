"""Another user of this machine prepares a cache, plants links in it, or holds its locks."""

from __future__ import annotations

import json
import os
import pwd
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railbed.errors import UsageError
from railbed.lab import folder
from railbed.lab.folder import remove_tree
from railbed.lab.model import Spec
from railbed.lab.steps import LongSteps, usual_seconds
from railbed.lab.vm import cache
from railbed.lab.vm.recipe import _kvm_failure, remember_kvm
from railbed.model.writers import ACL
from railbed.store.cache import ForeignCache, cache_folder, make_folder, read_cached
from railbed.store.run_lock import only_one
from railbed.train.data.prepare import prepare
from railbed.train.models.gpt import GptSettings
from railbed.train.recipe import Data, Recipe
from tests.support.cli import railbed
from tests.support.strangers import open_folder, run_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to create another user")
LAB = {
    "spec": {"name": "lab", "kind": "netns", "nodes": 1},
    "number": 200,
    "id": "0000",
    "state": "starting",
    "faults": [],
}
PLANT_LAB = 'mkdir -p "$1/labs"; printf %s "$3" >"$2/lab.json"; ln -s "$2" "$1/labs/lab"'
"""A lab whose folder is a link to one that everybody can write to, as /tmp is."""
SPEC = Spec(name="lab", kind="netns", nodes=1)


@pytest.fixture
def victim() -> Iterator[Path]:
    """A folder of everybody with a file of root."""
    with open_folder() as path:
        (path / "letter").write_text("dear")
        yield path
        assert (path / "letter").read_text() == "dear"


def tree(top: Path) -> set[tuple[str, int]]:
    """Return the names of everything below a folder, with their modes."""
    return {(str(path), path.lstat().st_mode) for path in top.rglob("*")}


def refusals(work: Path, **variables: str) -> set[str]:
    """Return how the commands that use the cache are refused; they change nothing."""
    (work / "text.txt").write_text("words " * 999)
    train = ["train", "tiny", "--set", f"data.files=[{work / 'text.txt'}]", "--set", "steps=1"]
    lab_up = ["lab", "up", "--nodes", "1", "--rails", "1"]
    changes: dict[str, Any] = {"RAILBED_RUNS": str(work / "runs"), **variables}
    messages = set()
    for words in (
        ["lab", "down"],
        ["lab", "status"],
        ["lab", "fault", "heal"],
        lab_up,
        [*lab_up, "--kind", "vm"],
        train,
    ):
        done = railbed(work, *words, **changes)
        assert done.code == 2, (words, done)
        first, _, hint = done.err.removeprefix("railbed: ").partition("\n")
        assert hint.strip(), done.err
        messages.add(f"{first} | {hint.strip()}")
    return messages


@pytest.mark.parametrize("under", ["HOME", "XDG_CACHE_HOME", "RAILBED_CACHE"])
def test_root_does_not_use_the_cache_of_local_user(
    stranger: str, shared: Path, victim: Path, tmp_path: Path, under: str
) -> None:
    """As with `sudo -E`: `lab down` erased what a link there leads to."""
    below = {"HOME": ".cache/railbed", "XDG_CACHE_HOME": "railbed", "RAILBED_CACHE": "."}[under]
    place = (shared / "theirs" / below).resolve()
    run_as(stranger, f'mkdir -p "$1"; {PLANT_LAB}', place, victim, json.dumps(LAB))
    before = tree(shared) | tree(victim)
    (message,) = refusals(tmp_path, **{under: str(shared / "theirs")})
    theirs = shared / "theirs"
    sentence = f"the cache of railbed is below {theirs}, which belongs to {stranger}"
    if under == "RAILBED_CACHE":
        sentence = f"{theirs}, in which railbed keeps its files, belongs to {stranger}"
    assert message.startswith(f"{sentence} | "), message
    assert message.endswith("RAILBED_CACHE=FOLDER uses another one")
    assert ("sudo -H" in message) is (under != "RAILBED_CACHE")
    assert tree(shared) | tree(victim) == before


def test_a_cache_to_which_a_group_can_write_is_refused(
    stranger: str, shared: Path, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = shared / "cache"
    place.mkdir()
    subprocess.run(["chgrp", stranger, str(place)], check=True, timeout=60)
    place.chmod(0o2770)
    run_as(stranger, PLANT_LAB, place, victim, json.dumps(LAB))
    (message,) = refusals(tmp_path, RAILBED_CACHE=str(place))
    remedy = f"look at what is in it, then `chmod -R go-w {place}`; or RAILBED_CACHE=FOLDER uses another one"
    described = f"{place}, in which railbed keeps its files, belongs to root, and the group {stranger} can write to it"
    assert message == f"{described} | {remedy}"
    place.chmod(0o700)
    monkeypatch.setenv("RAILBED_CACHE", str(place))
    with pytest.raises(ForeignCache, match=f"labs, in which railbed keeps its files, belongs to {stranger}$"):
        folder.load_labs()


def test_a_folder_above_the_cache_cannot_be_replaced(
    stranger: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(stranger, 'mkdir "$1/theirs"; ln -s "$1/ours" "$1/link"', shared)
    for parent in (shared / "theirs", shared / "ours"):
        (parent / "cache").mkdir(parents=True)
    monkeypatch.setenv("RAILBED_CACHE", str(shared / "theirs" / "cache"))
    with pytest.raises(ForeignCache, match=rf"is below {shared / 'theirs'}, which belongs to {stranger}$"):
        cache_folder()
    monkeypatch.setenv("RAILBED_CACHE", str(shared / "link" / "cache"))
    with pytest.raises(ForeignCache, match=f"has {shared / 'link'} in it, a link of {stranger}$"):
        cache_folder()
    monkeypatch.setenv("RAILBED_CACHE", str(shared / "ours" / "cache"))
    assert cache_folder("labs") == shared / "ours" / "cache" / "labs"
    (shared / "ours").chmod(0o777)
    with pytest.raises(ForeignCache, match=r"ours, which belongs to root, and everybody can write to it$"):
        cache_folder()
    (shared / "ours").chmod(0o755)
    (shared / "ours" / "link").symlink_to("../ours/cache")
    monkeypatch.setenv("RAILBED_CACHE", str(shared / "ours" / "link"))
    assert make_folder("labs") == shared / "ours" / "link" / "labs", "a link of our own in the path that we chose"


def test_an_account_in_an_acl_can_write_too(stranger: str, own: Path) -> None:
    entries = [(1, 7, 0), (2, 7, pwd.getpwnam(stranger).pw_uid), (4, 0, 0), (16, 7, 0), (32, 0, 0)]
    make_folder()
    try:
        os.setxattr(own, ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
    except OSError:
        pytest.skip("needs a file system with ACLs")
    with pytest.raises(ForeignCache, match="belongs to root, and accounts in its ACL can write to it"):
        cache_folder()


@pytest.mark.parametrize("place", ["labs", "labs/lab", "images", "locks", "tokens", "compiled"])
def test_a_link_in_the_cache_is_not_followed(place: str, own: Path, victim: Path) -> None:
    """Planted while others could write to it."""
    (victim / "lab.json").write_text(json.dumps(LAB))
    (victim / "lab").mkdir()
    (victim / "lab" / "lab.json").write_text(json.dumps(LAB))
    before = tree(victim)
    make_folder(*Path(place).parts[:-1])
    (own / place).symlink_to(victim)
    with pytest.raises(ForeignCache, match="is a link of root, and railbed follows none in its cache") as refused:
        cache_folder(*Path(place).parts)
    assert refused.value.hint.startswith(f"`rm {own / place}` removes it; ")
    if place.startswith("labs"):
        done = railbed(own.parent, "lab", "down", RAILBED_CACHE=str(own))
        assert (done.code, "follows none in its cache" in done.err) == (2, True), done
    assert tree(victim) == before


@pytest.mark.parametrize(
    "name", ["lab.json", "key", "cluster.yaml", "hosts", "node1.log", "nexus/initial.cfg", "nexus"]
)
def test_a_link_in_the_folder_of_a_lab_is_not_followed(name: str, own: Path, victim: Path) -> None:
    with folder.create_lab(SPEC, set()) as lab:
        path = lab.folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(victim if name == "nexus" else victim / "letter")
    with pytest.raises(ForeignCache, match=f"{name} is a link of root"):
        folder.load_lab("lab")
    assert not (own / "labs" / "lab" / "homes").exists()


def test_a_pipe_in_place_of_a_lab_is_not_waited_for(own: Path) -> None:
    lab = make_folder("labs") / "lab"
    lab.mkdir()
    os.mkfifo(lab / "lab.json")
    with pytest.raises(UsageError, match="it is not a file"):
        folder.load_lab("lab")
    assert own.is_dir()


def test_links_in_place_of_small_files_stay_without_effect(own: Path, victim: Path, tmp_path: Path) -> None:
    (make_folder("locks") / "configure-10.0.0.1.lock").symlink_to(victim / "letter")
    with pytest.raises(ForeignCache, match="follows none"), only_one("configure", ["10.0.0.1"], tmp_path / "run"):
        pass
    (own / "durations.json").symlink_to(victim / "letter")
    assert usual_seconds("install", 90.0) == 90.0
    LongSteps("image").remember()
    assert not (own / "durations.json").is_symlink()
    (make_folder("images") / _kvm_failure().name).symlink_to(victim / "letter")
    remember_kvm("no guest")
    assert read_cached(_kvm_failure()) == b"no guest\n"


def test_tokens_behind_a_link_are_not_used(own: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("words of a text " * 99)
    model = GptSettings(layers=1, heads=1, width=8, context=16, vocabulary=300)
    recipe = Recipe(model=model, data=Data(files=(str(tmp_path / "text.txt"),)))
    made = prepare(recipe, cache_folder("tokens")).folder
    assert {stat.S_IMODE(path.stat().st_mode) for path in (own, own / "tokens", made)} == {0o700}
    (made / "tokens.bin").rename(tmp_path / "tokens.bin")
    (made / "tokens.bin").symlink_to(tmp_path / "tokens.bin")
    with pytest.raises(ForeignCache, match=r"tokens\.bin is a link"):
        prepare(recipe, cache_folder("tokens"))


def test_compiled_code_of_somebody_else_is_not_run(
    stranger: str, own: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba runs what it finds in $NUMBA_CACHE_DIR, which `sudo -E` passes on."""
    compiled = pytest.importorskip("railbed.capture.files.compiled")
    run_as(stranger, 'mkdir "$1"', shared / "theirs")
    script = "import railbed.capture.files.compiled; from numba.core import config; print([config.CACHE_DIR])"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(shared / "theirs")}
    python = [sys.executable, "-c", script]
    done = subprocess.run(python, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "['']\n", "it is beside the source"
    monkeypatch.setattr(compiled.os, "access", lambda *_, **__: False)
    assert compiled._folder() == str(own / "compiled")
    (own / "compiled" / "code").symlink_to(shared / "theirs")
    with pytest.raises(ForeignCache, match="code is a link"):
        compiled._folder()


def test_remains_in_the_folder_of_a_new_lab_are_removed_first(own: Path, victim: Path) -> None:
    remains = make_folder("labs") / "lab"
    remains.mkdir()
    for name in ("key", "node1.log", "lab.json.new", "image"):
        (remains / name).symlink_to(victim / "letter")
    with folder.create_lab(SPEC, set()) as lab:
        assert [path.name for path in lab.folder.iterdir()] == ["lab.json"]
        assert stat.S_IMODE(lab.folder.stat().st_mode) == 0o700
    assert own in lab.folder.parents


def test_nothing_is_removed_through_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        remove_tree(tmp_path / "link" / "letter")
    remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("planted", ["root.raw", "manifest.json", ""])
def test_an_image_of_somebody_else_is_not_used(stranger: str, own: Path, planted: str) -> None:
    image = make_folder("images") / "key"
    with cache.making(image, ("root.raw",)) as new:
        (new / "root.raw").write_text("disk")
        (new / "root.raw").chmod(0o666)
    assert cache.is_whole(image), "only its folder's mode decides, and a file's own if others can reach it"
    path = image / planted
    subprocess.run(["chown", stranger, str(path)], check=True, timeout=60)
    with pytest.raises(ForeignCache, match=f"{path}, in which railbed keeps its files, belongs to {stranger}$"):
        cache.is_whole(image)
    subprocess.run(["chown", "root", str(path)], check=True, timeout=60)
    assert cache.is_whole(image)
    image.chmod(0o755)
    path.chmod(0o777)
    with pytest.raises(ForeignCache, match=f"{path}, .* belongs to root, and everybody can write to it"):
        cache.is_whole(image)
    (own / "labs").mkdir()
    (own / "labs" / "image").write_text("key/states/none")
    with pytest.raises(ForeignCache, match="everybody can write to it"):
        cache.find_saved_machine(own / "labs")


def test_unfinished_images_are_not_removed_through_a_link(own: Path, victim: Path) -> None:
    (victim / "states" / ".new-1234").mkdir(parents=True)
    (make_folder("images") / "key").symlink_to(victim)
    with pytest.raises(ForeignCache, match="key is a link"):
        cache.clear()
    assert (victim / "states" / ".new-1234").is_dir()
    assert own.is_dir()
