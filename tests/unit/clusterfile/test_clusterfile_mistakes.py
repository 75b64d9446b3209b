"""Every case in `cases/clusterfile/`: a file, and beside it the lines that a user reads about it.

`pytest --update` writes the lines anew. A case that loads has no lines, and `is_fine` in its name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.clusterfile import loads
from railbed.errors import ClusterFileError

CASES = Path(__file__).parent.parent.parent / "cases" / "clusterfile"
FILES = sorted(CASES.glob("*.yaml"))


def error_of(text: str) -> str:
    try:
        loads(text, name="cluster.yaml")
    except ClusterFileError as error:
        return error.message + "\n"
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case(path: Path, update: bool) -> None:
    content = error_of(path.read_bytes().decode())
    expected = path.with_suffix(".txt")
    if update:
        expected.write_text(content)
    assert content == expected.read_text()
    assert bool(content) != path.stem.endswith("fine")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_secret_is_repeated(path: Path) -> None:
    assert "hunter" not in error_of(path.read_bytes().decode()).lower()


def test_every_line_says_where() -> None:
    for path in CASES.glob("*.txt"):
        assert all(line.startswith("cluster.yaml:") for line in path.read_text().splitlines()), path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: " + "[\n" * 2000, "cluster.yaml:51: nested too deeply\n"),
        ("name: x\nnodes: \0\n", "cluster.yaml:2: a NUL byte; a cluster file is plain text\n"),
    ],
    ids=["deep", "nul byte"],
)
def test_what_no_file_of_ours_should_hold(text: str, message: str) -> None:
    assert error_of(text) == message
