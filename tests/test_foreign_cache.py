"""A cache that belongs to another account, as after `sudo railbed`: every use names the owner and the remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import environment

AS_NOBODY = """
import io, json, os, sys
result = os.fdopen(os.dup(1), "w")
from tests.support.ordinary import NOBODY, become_nobody
os.chown(".", NOBODY, NOBODY)
become_nobody()
from railbed.cli.main import run
ends = []
for words in json.loads(sys.argv[1]):
    sys.stdout = sys.stderr = io.StringIO()
    code = run(words)
    ends.append([code, sys.stderr.getvalue()])
json.dump(ends, result)
"""
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def run_as_nobody(
    folder: Path, cache: Path, *commands: list[str], under: str = "RAILBED_CACHE"
) -> list[tuple[int, str]]:
    """Run commands in a process of nobody; return how each ended, and what it printed to standard error."""
    folder.mkdir(mode=0o777, exist_ok=True)
    for path in (folder, *folder.parents, cache, *cache.parents):
        if path.stat().st_mode & 0o005 != 0o005:
            path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, json.dumps(commands)],
        cwd=folder,
        env=environment(PYTHONPATH=str(Path(__file__).parents[1]), HOME=str(folder), **{under: str(cache)}),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [(code, text) for code, text in json.loads(done.stdout)]


@ROOT_ONLY
def test_each_use_of_a_foreign_cache_names_owner_and_remedy(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "text.txt").write_text("words " * 999)
    train = ["train", "tiny", "--set", f"data.files=[{tmp_path / 'text.txt'}]", "--set", "steps=1"]
    ends = run_as_nobody(tmp_path / "work", cache, ["lab", "status"], ["lab", "down"], train)
    for code, stderr in ends:
        assert code == 2, stderr
        assert stderr.startswith(f"railbed: {cache}, in which railbed keeps its files, belongs to root\n"), stderr
        assert f"`sudo chown -R nobody {cache}` gives it to you, RAILBED_CACHE=FOLDER uses another one" in stderr
    assert list(cache.iterdir()) == []


@ROOT_ONLY
def test_parts_of_the_cache_may_be_foreign(tmp_path: Path) -> None:
    """`sudo railbed lab up` adds a folder to the user's own cache, or makes ~/.cache."""
    cache = tmp_path / "cache" / "railbed"
    lab = cache / "labs" / "mine"
    lab.mkdir(mode=0o700, parents=True)
    for path in (cache, cache / "labs"):
        os.chown(path, 65534, 65534)
    ((code, stderr),) = run_as_nobody(tmp_path / "work", cache, ["lab", "status"])
    assert (code, f"{lab}, in which railbed keeps its files, belongs to root" in stderr) == (2, True), stderr
    home = tmp_path / "home" / ".cache"
    home.mkdir(parents=True)
    ((code, stderr),) = run_as_nobody(tmp_path / "work", home, ["train", "tiny"], under="XDG_CACHE_HOME")
    assert (code, f"`sudo chown -R nobody {home}`" in stderr) == (2, True), stderr
