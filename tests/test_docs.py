"""Documents that cannot go stale: generated pages are up to date, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tools.pictures import IMAGES, LIVE_PAGE, PAGE, RECORDINGS, pictures
from tools.reference import FOLDER, pages
from typer.main import get_command

from railbed import __version__
from railbed.cli.main import VERBS, make_app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "tests").rglob("*.md"),
    ]
)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_fresh(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `make docs`"


def test_the_reference_has_no_leftovers() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(pages())


@pytest.mark.parametrize("name", sorted(pictures()))
def test_pictures_are_fresh(name: str) -> None:
    assert (IMAGES / name).read_text(encoding="utf-8") == pictures()[name](), "run `make docs`"


def test_pictures_are_small_need_nothing_else_and_are_all_shown() -> None:
    assert {path.name for path in IMAGES.iterdir()} == {*pictures(), PAGE, LIVE_PAGE}
    shown = {
        target for path in DOCUMENTS for target in re.findall(r"!\[[^]]{20,}\]\((?:[^)]*/)?(\S+?)\)", path.read_text())
    }
    assert shown >= {*pictures(), PAGE, LIVE_PAGE}, "every picture is shown somewhere, with words for who cannot see it"
    for path in IMAGES.iterdir():
        assert path.stat().st_size < 150_000, path.name
    for name in pictures():
        text = (IMAGES / name).read_text(encoding="utf-8")
        assert not re.search(r"href|url\(|<image|<script|@import", text), name


def test_recordings_hold_nothing_of_the_machine_they_come_from() -> None:
    for path in [*RECORDINGS.rglob("*.*"), *IMAGES.glob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 400_000, path.name
        assert not re.search(r"/work\b|/root\b|/tmp\b|/home/(?!ada/)", text), path.name


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", without_code, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path, text: str) -> list[str]:
    """Return the links in the text of a page that lead to no file, or to no heading of it."""
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        file = path.parent / target if target else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            broken.append(f"{target}#{anchor}" if anchor else target)
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path, path.read_text()) == []


@pytest.mark.parametrize("planted", ["[a](nowhere.md)", "[a](training.md#nowhere)", "[a](#nowhere)"])
def test_a_planted_broken_link_is_noticed(planted: str) -> None:
    assert broken_links(ROOT / "docs" / "training.md", planted)


def test_pages_that_code_and_its_texts_name_exist() -> None:
    suffixes = {".py", ".yaml", ".html", ".js", ".sh", ".toml"}
    files = [
        path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*") if path.suffix in suffixes
    ]
    missing = []
    for path in [*files, ROOT / "Makefile"]:
        names = re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8", errors="replace"))
        missing += [f"{path.relative_to(ROOT)}: {name}" for name in names if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_documents_name_exist(path: Path) -> None:
    if path.name == "CHANGELOG.md":
        return  # it also names what older versions had
    text = path.read_text()
    names = [name for name in re.findall(r"`([\w/.-]+\.(?:py|yaml|json|jsonl))`", text) if "/" in name]
    names += [f"{module.replace('.', '/')}.py" for module in re.findall(r"python3? -m (tools\.\w+)", text)]
    missing = [name for name in names if not any((root / name).exists() for root in (ROOT, ROOT / "src" / "railbed"))]
    assert missing == []


def test_every_promise_about_other_people_is_shown_by_a_test() -> None:
    _, _, table = (ROOT / "docs" / "security.md").read_text().partition("## Who can do what\n")
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    people = [row[0] for row in rows[1:] if len(row) == 4]
    assert len(people) == 6, "a stranger's files, users here and on nodes, nodes, switches, the index"
    for row in rows[1:]:
        tests = re.findall(r"`(tests/[\w/]+\.py)`", row[-1])
        assert tests, row
        assert [test for test in tests if not (ROOT / test).exists()] == []


def test_every_verb_is_in_the_readme_and_every_package_in_the_tree() -> None:
    for verb in VERBS:
        assert f"`railbed {verb}" in README
    tree = (ROOT / "docs" / "architecture.md").read_text()
    for path in (ROOT / "src" / "railbed").iterdir():
        if path.is_dir() and not path.name.startswith("__"):
            assert f"  {path.name}/ " in tree


def test_folders_that_the_architecture_names_exist() -> None:
    folders = re.findall(r"`((?:[\w.-]+/)+)`", (ROOT / "docs" / "architecture.md").read_text())
    roots = (ROOT, ROOT / "docs", ROOT / "src" / "railbed")
    assert folders
    assert [folder for folder in folders if not any((root / folder).is_dir() for root in roots)] == []


def test_the_page_about_support_names_every_file() -> None:
    folder = ROOT / "tests" / "support"
    names = set(re.findall(r"`(\w+\.py|\w+/)`", (folder / "README.md").read_text()))
    packages = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert names == packages | modules


def pages_linked_from(path: Path, text: str) -> set[Path]:
    """Return the pages in the documents that the text of a page links to."""
    targets = {(path.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)}
    return {target for target in targets if target.suffix == ".md" and target.is_relative_to(ROOT / "docs")}


def test_the_index_leads_to_every_page() -> None:
    """Each from the index itself, except decisions: those are in an index of their own."""
    index, decisions = ROOT / "docs" / "README.md", ROOT / "docs" / "decisions" / "README.md"
    assert index in pages_linked_from(ROOT / "README.md", README)
    linked = pages_linked_from(index, index.read_text())
    assert decisions in linked
    linked |= pages_linked_from(decisions, decisions.read_text())
    assert {path.resolve() for path in (ROOT / "docs").rglob("*.md")} - linked == {index.resolve()}


def test_the_index_of_decisions_has_their_titles() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        number, _, title = path.read_text().splitlines()[0].removeprefix("# ").partition(". ")
        assert f"| [{number}]({path.name}) | {title} |" in index


def commands(path: Path) -> list[str]:
    """Return the commands that a document shows in its code blocks, without their comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.partition("#")[0].strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("railbed ")]


@pytest.mark.parametrize("path", [document for document in DOCUMENTS if commands(document)], ids=lambda path: path.stem)
def test_the_commands_of_documents_can_be_called(path: Path) -> None:
    """Each is parsed as the command line would, down to its last option; nothing is run."""
    app = get_command(make_app())
    for line in commands(path):
        words = shlex.split(re.split(r" [|>&]|;", line)[0])[1:]
        command = app
        context = command.make_context("railbed", words)
        while hasattr(command, "resolve_command"):
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            name, command, words = command.resolve_command(context, rest)
            context = command.make_context(name, words, parent=context)


def test_the_readme_begins_with_what_it_is_how_to_get_it_and_a_picture() -> None:
    first_screen = README[: README.index("\n## ")]
    assert len(first_screen.splitlines()) < 30
    for line in (f"pip install ./railbed-{__version__}-py3-none-any.whl", "railbed check", "make run", "make test"):
        assert re.search(rf"^{re.escape(line)}  ", first_screen, re.MULTILINE), line
    assert len(re.findall(r"^!\[", README, re.MULTILINE)) == len(re.findall(r"^!\[", first_screen, re.MULTILINE)) == 1


def test_the_walk_through_of_the_readme_takes_its_lab_down() -> None:
    (block,) = re.findall(r"^```\n(railbed lab up.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert block.splitlines()[-1].startswith("railbed lab down ")


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_changelog_is_cut_at_each_version_and_says_nothing_twice() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    unreleased, *headings = re.findall(r"^## (.*)", changelog, re.MULTILINE)
    assert unreleased == "Unreleased"
    versions = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings]
    assert all(versions), headings
    numbers = [tuple(map(int, version.groups()[:3])) for version in versions if version]
    assert numbers == sorted(numbers, reverse=True)
    entries = re.findall(r"^- .*", changelog, re.MULTILINE)
    kinds = "FEATURE|ENHANCEMENT|CHANGE|FIX|SECURITY"
    assert [entry for entry in entries if not re.match(rf"- \[(?:{kinds})\] ", entry)] == []
    assert len(set(entries)) == len(entries)
