"""Where tests are required, only what was decided on is skipped."""

from __future__ import annotations

import ast
import re

import pytest
from tests.support.skips import KINDS, MAY_SKIP, refusal
from tests.support.source import ROOT


@pytest.mark.parametrize(
    ("required", "reason", "marks", "refused"),
    [
        ("", "labs need root", set(), ""),
        ("ssh", "sshd is not installed", {"ssh"}, "RAILBED_REQUIRE=ssh requires it"),
        ("netns,ssh", "sshd is not installed", {"ssh", "xdist_group"}, "RAILBED_REQUIRE=netns,ssh requires it"),
        ("all", "sshd is not installed", {"ssh"}, "RAILBED_REQUIRE=all requires it"),
        ("netns", "sshd is not installed", {"ssh"}, ""),
        ("netns", "could not import 'gguf'", {"xdist_group"}, "MAY_SKIP has no such reason"),
        ("all", "could not import 'gguf'", set(), "MAY_SKIP has no such reason"),
        ("all", "root may read everything", {"ssh"}, ""),
        ("ssh", "nothing is locked for 3.15 on riscv64", set(), ""),
        ("ssh", "root may read everything, or nothing", set(), "MAY_SKIP has no such reason"),
    ],
)
def test_a_skip_is_a_failure_unless_it_was_decided_on(
    required: str, reason: str, marks: set[str], refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILBED_REQUIRE", required)
    assert refusal(reason, marks) == (f"skipped, but {refused}: {reason}" if refused else "")


def test_every_reason_is_still_one() -> None:
    texts = {
        node.value
        for path in (ROOT / "tests").rglob("*.py")
        if path.name not in ("skips.py", "test_skips.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [reason for reason in MAY_SKIP if reason.removesuffix(".*") not in texts] == []


def test_every_kind_is_a_mark() -> None:
    marks = set(re.findall(r'^  "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    assert marks >= KINDS
