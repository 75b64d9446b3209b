"""What `make release` refuses: trees that are not what they say, and archives that are not what the tree is."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from tools import release

from railbed import __version__

CHANGELOG = """\
# Changelog

## Unreleased

## 0.9.1

- without a date

## 0.9.0 (2026-01-31)

- a section
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clone without changes."""
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("/dist/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "-m", "all")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_a_clean_tree_with_its_section_can_be_released(tree: Path) -> None:
    (tree / "dist").mkdir()
    (tree / "dist" / "older.whl").touch()
    assert list(release.obstacles(tree, "0.9.0")) == []


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("0.9.2", "CHANGELOG.md has no section for 0.9.2"),
        ("0.9.1", "the section for 0.9.1 in CHANGELOG.md has no date"),
        ("0.9", "CHANGELOG.md has no section for 0.9"),
    ],
)
def test_a_version_without_a_dated_section_is_refused(version: str, reason: str, tree: Path) -> None:
    assert list(release.obstacles(tree, version)) == [reason]


def test_changed_and_new_files_are_refused_by_name(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(CHANGELOG + "\n- more\n")
    (tree / "notes.txt").touch()
    (reason,) = release.obstacles(tree, "0.9.0")
    assert reason == "the tree has changes that are not committed: CHANGELOG.md, notes.txt"


def test_this_version_has_its_section() -> None:
    assert release.version_of(release.ROOT) == __version__
    assert list(release.find_unannounced((release.ROOT / "CHANGELOG.md").read_text(), __version__)) == []


def test_an_archive_with_other_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.writestr("railbed/__init__.py", "")
        archive.writestr("railbed/cli/main.py", "changed")
        archive.writestr("railbed/notes.txt", "")
        archive.writestr("railbed-0.9.0.dist-info/METADATA", "")
    files = release.wheel_files(tmp_path / "some.whl")
    expected = {"railbed/__init__.py": 0, "railbed/cli/main.py": 1, "railbed/cli/verbs/runs/clean.py": 2}
    with pytest.raises(release.NotReleasable) as caught:
        release.compare(expected, files, "the wheel")
    assert str(caught.value) == (
        "the wheel lacks railbed/cli/verbs/runs/clean.py; also has railbed/notes.txt; "
        "has other content in railbed/cli/main.py"
    )
    release.compare(files, files, "the wheel")


def test_a_refused_release_ends_with_its_reason(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src" / "railbed").mkdir(parents=True)
    (tree / "src" / "railbed" / "__init__.py").write_text('__version__ = "0.9.0"\n')
    assert release.main(tree) == 1
    assert capsys.readouterr().err == "not released: the tree has changes that are not committed: src/\n"
    assert not (tree / "dist").exists()
