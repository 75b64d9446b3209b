"""Documents that cannot go stale: the generated ones are as they would be written, and what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
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
