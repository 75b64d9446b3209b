"""The guides in docs/guides: their commands run on the recordings of their sites, and show what the guides explain."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from railbed.cli.main import make_app
from tests.support.cli import railbed
from tests.support.recordings import EXAMPLES, SHIPPED

ROOT = Path(__file__).parent.parent
GUIDES = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "guides").glob("*.md"))}
SITES = {
    name: sites[0].removesuffix(".yaml")
    for name, text in GUIDES.items()
    if (sites := re.findall(r"\(\.\./\.\./examples/([\w-]+\.yaml)\)", text))
}
"""The example that a guide is about."""
NOT_REPLAYED = ("--apply", "--undo", "--prove", "--record", "--replay", "--switch")
ENDINGS = (0, 1, 3)
"""Exit codes of a verb that did its work."""


def commands(text: str) -> list[list[str]]:
    """Return the words of each command in the blocks of a page, in order."""
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.partition("  #")[0].partition(">")[0] for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("railbed ")]


def test_each_guide_is_one_page_and_begins_with_commands() -> None:
    assert {*GUIDES} == {"control-machine", "eight-vms", "lost", "three-desktops", "two-boxes"}
    for name, text in GUIDES.items():
        assert len(text.splitlines()) < 70, name
        assert "```\nrailbed " in "\n".join(text.splitlines()[:8]), name
        assert commands(text), name


@pytest.mark.parametrize("name", GUIDES)
def test_commands_within_sentences_can_be_called(name: str) -> None:
    app = get_command(make_app())
    lines = re.findall(r"`railbed ([^`\n]+)`", GUIDES[name])
    for line in lines:
        words = shlex.split(line)
        command, context = app, app.make_context("railbed", words)
        while hasattr(command, "resolve_command"):
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            verb, command, words = command.resolve_command(context, rest)
            context = command.make_context(verb, words, parent=context)


@pytest.mark.parametrize("name", GUIDES)
def test_commands_that_only_read_work_on_a_recording(name: str, tmp_path: Path) -> None:
    site = SITES.get(name, "two-roce-vms")
    read = [words for words in commands(GUIDES[name]) if words[0] in ("discover", "check", "configure")]
    ran = 0
    for words in read:
        if any(word in NOT_REPLAYED for word in words) or "local" in words:
            continue
        # The machines of a recording have its names; without hosts, all of them are read.
        own = words[:1] if words[0] == "discover" else words
        result = railbed(tmp_path, *own, "--replay", SHIPPED / site)
        assert result.code in ENDINGS, result
        assert "itself failed" not in result.err
        ran += 1
    assert ran >= 2


@pytest.mark.parametrize("name", SITES)
def test_the_findings_that_a_guide_explains_are_there(name: str, tmp_path: Path) -> None:
    text, site = GUIDES[name], SITES[name]
    assert f"railbed check --replay examples/recordings/{site}\n" in text
    assert (SHIPPED / site / "cluster.yaml").read_text() == (EXAMPLES / f"{site}.yaml").read_text()
    _, _, table = text.partition("| finding | what happened |\n|---|---|\n")
    first_cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    explained = [words for cell in first_cells for words in re.findall(r"`([^`]+)`", cell)]
    assert len(explained) >= 4
    result = railbed(tmp_path, "check", "--replay", SHIPPED / site, "--json")
    open_ = [finding for finding in result.findings if finding["verdict"] not in ("ok", "skipped")]
    for words in explained:
        check, _, subject = words.partition(" ")
        assert any(each["check"] == check and each["subject"].startswith(subject) for each in open_), words
