"""The weights of a run, fetched from its node: complete, verified, and loaded by transformers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import railbed as api
from railbed.errors import UsageError
from railbed.model.events import WeightsFetched
from railbed.store.find import read_start
from tests.support.cli import Result, railbed
from tests.support.disks import fill, small_disk
from tests.support.ranks import wait_for
from tests.support.sshd import running_servers

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("train")]
SECONDS = 60.0
KILLED_AT_THE_END = """
import os, signal, sys
from railbed.cli.main import run
from railbed.train import export
export.read_sealed = lambda _: os.kill(os.getpid(), signal.SIGKILL)
run(sys.argv[1:])
"""
KILLED_WHEN_MADE = """
import os, signal, sys
from pathlib import Path
from railbed.cli.main import run
from railbed.train import export

def receive(*_, **__):
    assert list(Path("work").glob(".railbed/runs/*/here/temporary*/weights/model.gguf"))
    os.kill(os.getpid(), signal.SIGKILL)

export.receive = receive
run(sys.argv[1:])
"""
TRAINING_PAGE = Path(__file__).parent.parent / "docs" / "training.md"
LOADED = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "manifest.json"]


@pytest.fixture
def trained(trained_here: Path) -> Path:
    return trained_here


def call(folder: Path, *arguments: str | Path) -> Result:
    return railbed(folder, *arguments, XDG_CACHE_HOME=str(folder / "cache"))


def node_folder(trained: Path) -> Path:
    (folder,) = (trained / "work" / ".railbed" / "runs").glob("*/here")
    return folder


@contextmanager
def without_model(trained: Path) -> Iterator[Path]:
    """As if the run had not come to its end."""
    model = node_folder(trained) / "model"
    model.rename(trained / "aside")
    try:
        yield node_folder(trained)
    finally:
        (trained / "aside").rename(model)


def events(result: Result, name: str) -> list[dict[str, Any]]:
    return [record for record in result.records if record.get("name") == name]


def test_transformers_loads_it_and_samples_from_it(trained: Path, warm_python_here: Path, tmp_path: Path) -> None:
    """Exactly as in docs/training.md."""
    done = call(trained, "export", "newest", tmp_path / "weights")
    assert done.code == 0, done
    assert done.out.startswith("weights of step 12, as written at its end, from here: ")
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == sorted(LOADED)
    pytest.importorskip("transformers")
    (script,) = re.findall(r"```python\n(.*?)```", TRAINING_PAGE.read_text(), re.DOTALL)
    shown = subprocess.run(
        [warm_python_here.with_name("call"), "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("def main(")
    assert len(shown.stdout) > len("def main(\n")


def test_a_folder_that_is_not_empty_is_refused(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        done = call(trained, "export", "newest", path)
        assert (done.code, f"railbed: {path} is not empty\n" in done.err) == (2, True)
    (tmp_path / "empty").mkdir()
    assert call(trained, "export", "newest", tmp_path / "empty").code == 0
    assert (tmp_path / "empty" / "config.json").exists()


def test_a_run_that_did_not_finish_gives_its_newest_good_checkpoint(trained: Path, tmp_path: Path) -> None:
    with without_model(trained) as run:
        done = call(trained, "export", "newest", tmp_path / "weights", "--json")
        # A state may be passed over while the one before it is still being written: which are there is up to the disk.
        before, newest = sorted((run / "checkpoints").glob("step-*"))[-2:]
        (newest / "model.safetensors").rename(trained / "away")
        try:
            older = call(trained, "export", "newest", tmp_path / "older", "--json")
        finally:
            (trained / "away").rename(newest / "model.safetensors")
        assert not list(run.glob("temporary*"))
    assert (done.code, older.code) == (0, 0), (done, older)
    (fetched,) = events(done, "weights")
    assert (fetched["data"]["step"], fetched["data"]["finished"]) == (12, False)
    # The same weights, made on another way.
    same = (tmp_path / "weights" / "model.safetensors").read_bytes()
    assert same == (node_folder(trained) / "model" / "model.safetensors").read_bytes()
    assert (tmp_path / "weights" / "tokenizer.json").exists()
    assert f"step-{events(older, 'weights')[0]['data']['step']:08}" == before.name


def test_weights_that_were_damaged_on_the_node_are_not_taken(trained: Path, tmp_path: Path) -> None:
    file = node_folder(trained) / "model" / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-100] + bytes(100))
    try:
        done = call(trained, "export", "newest", tmp_path / "weights", "--json")
    finally:
        file.write_bytes(content)
    assert done.code == 0
    assert any(
        "model.safetensors has changed since it was written" in event["message"] for event in events(done, "notice")
    )
    assert events(done, "weights")[0]["data"]["finished"] is False
    assert (tmp_path / "weights" / "model.safetensors").read_bytes() == content


def test_a_run_without_weights_says_so_in_one_sentence(trained: Path, tmp_path: Path) -> None:
    work = trained / "work"
    work.rename(trained / "elsewhere")
    try:
        done = call(trained, "export", "newest", tmp_path / "weights")
    finally:
        shutil.rmtree(work, ignore_errors=True)
        (trained / "elsewhere").rename(work)
    assert done.code == 2
    assert "has no weights yet: its node does not have a checkpoint of it in " in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["20200101-000000-train"], 2, "there is no run '20200101-000000-train' in runs"),
        (["newest", "-c", "gone.yaml"], 3, "no weights of "),
        (["newest", "-c", "missing.yaml"], 2, "missing.yaml"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    trained: Path, tmp_path: Path, arguments: list[str], code: int, sentence: str
) -> None:
    (trained / "gone.yaml").write_text("name: gone\nnodes: {gone: {host: 127.0.0.1, login: {port: 1}}}\n")
    done = call(trained, "export", arguments[0], tmp_path / "weights", *arguments[1:])
    assert (done.code, sentence in done.err) == (code, True), done
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_here_keeps_nothing(trained: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk, leave=50_000)
        done = call(trained, "export", "newest", disk / "weights")
        assert [path.name for path in disk.iterdir()] == ["filling"]
    assert done.code == 2
    assert f"{disk}/weights cannot be written: the disk is full: " in done.err


def test_a_kill_leaves_no_folder_that_is_not_whole(trained: Path, tmp_path: Path) -> None:
    """A folder that exists is complete: it is filled under another name."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_THE_END, "export", "newest", str(tmp_path / "weights")],
        cwd=trained,
        check=False,
    )
    assert done.returncode == -9
    assert [path.name for path in tmp_path.iterdir()] == ["weights.partial"]
    again = call(trained, "export", "newest", tmp_path / "weights")
    assert again.code == 0, again
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == sorted(LOADED)


def test_a_kill_while_weights_are_made_does_not_block_the_next_export(trained: Path, tmp_path: Path) -> None:
    """The node removes what it made as soon as the one that wanted it is gone."""
    words = ["export", "newest", str(tmp_path / "weights"), "--gguf"]
    done = subprocess.run([sys.executable, "-c", KILLED_WHEN_MADE, *words], cwd=trained, check=False)
    assert done.returncode == -9
    wait_for(lambda: not list(node_folder(trained).glob("temporary*")), SECONDS)
    again = call(trained, *words)
    assert again.code == 0, again
    assert (tmp_path / "weights" / "model.gguf").is_file()
    assert not list(node_folder(trained).glob("temporary*"))


def test_the_sums_of_what_was_fetched_are_right(trained: Path, tmp_path: Path) -> None:
    assert call(trained, "export", "newest", tmp_path / "weights").code == 0
    sums = json.loads((tmp_path / "weights" / "manifest.json").read_text())["files"]
    for name, (digest, _) in sums.items():
        done = subprocess.run(["sha256sum", tmp_path / "weights" / name], capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == digest


@pytest.mark.ssh
def test_weights_come_over_ssh(trained: Path, warm_python_here: Path, tmp_path: Path) -> None:
    """The same node, reached as another machine is; a login shell that prints something is passed over."""
    (tmp_path / "ssh").mkdir()
    with running_servers(1, tmp_path / "ssh") as servers:
        (tmp_path / "ssh" / "home" / ".bashrc").write_text("echo welcome\n")
        text = servers.cluster_yaml().replace("  n1: {", f"  here: {{python: {warm_python_here}, ")
        (tmp_path / "ssh.yaml").write_text(f"{text}training: {{workdir: {trained / 'work'}}}\n")
        done = call(trained, "export", "newest", tmp_path / "weights", "-c", tmp_path / "ssh.yaml")
        with without_model(trained):
            made = call(trained, "export", "newest", tmp_path / "made", "-c", tmp_path / "ssh.yaml")
    assert (done.code, made.code) == (0, 0), (done, made)
    for name in LOADED[:-1]:
        assert (tmp_path / "weights" / name).read_bytes() == (tmp_path / "made" / name).read_bytes()


@pytest.mark.parametrize("damage", ["", "{", '{"name": "training"}', '{"name": "training", "data": {"run": 3}}'])
def test_records_without_a_training_are_reported(tmp_path: Path, damage: str) -> None:
    (tmp_path / "records.jsonl").write_text(damage + "\n")
    with pytest.raises(UsageError, match="ended before its training began"):
        read_start(tmp_path)


def test_a_run_without_its_cluster_is_reported(trained: Path, tmp_path: Path) -> None:
    (run,) = (trained / "runs").glob("*-train")
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "cluster.yaml").unlink()
    done = call(trained, "export", tmp_path / "copy", tmp_path / "weights")
    assert (done.code, "copy has no cluster file" in done.err) == (2, True), done


def test_from_python_it_is_the_same(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    stream = api.export("newest", tmp_path / "weights")
    records = list(stream)
    assert (stream.run.verb, stream.run.status, stream.run.exit) == ("export", "done", 0)
    (fetched,) = [record for record in records if isinstance(record, WeightsFetched)]
    assert fetched.folder == str(tmp_path / "weights")
    assert {path.name for path in (tmp_path / "weights").iterdir()} >= {*LOADED}
    with pytest.raises(UsageError, match="weights is not empty"):
        api.export("newest", tmp_path / "weights")
    with pytest.raises(UsageError, match="is a folder already"):
        api.export(tmp_path / "weights", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
