"""Documents that cannot go stale: the generated ones are as they would be written, and what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.pictures import IMAGES, PAGE, RECORDINGS, pictures
from tools.reference import FOLDER, pages

from railbed.cli.main import VERBS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_fresh(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `make docs`"


def test_the_reference_has_no_leftovers() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(pages())


@pytest.mark.parametrize("name", sorted(pictures()))
def test_pictures_are_fresh(name: str) -> None:
    assert (IMAGES / name).read_text(encoding="utf-8") == pictures()[name](), "run `make docs`"


def test_pictures_are_small_need_nothing_else_and_are_all_shown() -> None:
    assert {path.name for path in IMAGES.iterdir()} == {*pictures(), PAGE}
    shown = {
        target for path in DOCUMENTS for target in re.findall(r"!\[[^]]{20,}\]\((?:[^)]*/)?(\S+?)\)", path.read_text())
    }
    assert shown >= {*pictures(), PAGE}, "every picture is shown somewhere, with words for who cannot see it"
    for path in IMAGES.iterdir():
        assert path.stat().st_size < 150_000, path.name
    for name in pictures():
        text = (IMAGES / name).read_text(encoding="utf-8")
        assert not re.search(r"href|url\(|<image|<script|@import", text), name


def test_recordings_hold_nothing_of_the_machine_they_come_from() -> None:
    for path in [*RECORDINGS.rglob("*.*"), *IMAGES.glob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 400_000, path.name
        assert not re.search(r"/work\b|/root\b|/tmp\b|/home\b", text), path.name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_readme_names_every_verb_and_every_package() -> None:
    for verb in VERBS:
        assert f"`railbed {verb}" in README
    for path in (ROOT / "src" / "railbed").iterdir():
        if path.is_dir() and not path.name.startswith("__"):
            assert f"  {path.name}/ " in README
    assert "make run" in README
    assert "make test" in README


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
