"""A terminal or a file that cannot show UTF-8 gets ASCII that reads well: no garbage, no question marks, no error."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import railbed as package
from railbed.cli.run.encoding import ERRORS, is_ascii_wanted
from tests.support.cli import railbed
from tests.support.runs import plain_run, training_run

SOURCE = Path(package.__file__).parent
ELSEWHERE = ("web", "report/formats", "report/compare/page", "train/worker")
"""Parts whose text is a page, or is never printed."""
NOT_PRINTED = set("⁹ᵀ√\N{REPLACEMENT CHARACTER}\N{BYTE ORDER MARK}")
"""In patterns and formulas, or themselves a sign of what cannot be shown."""


def literals() -> Iterator[tuple[str, str]]:
    """Yield the text of the package that may be printed, with its file."""
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.value


def test_every_character_that_is_printed_has_a_replacement() -> None:
    missing = {
        (name, char)
        for name, text in literals()
        for char in text
        if not char.isascii() and char not in NOT_PRINTED and "?" in char.encode("ascii", ERRORS).decode()
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("1500 → 9000", "ascii", "1500 -> 9000"),
        ("stopping a …", "ascii", "stopping a ..."),
        ("a name that was cu…", "ascii", "a name that was cu~"),
        ("… 3 more", "ascii", "... 3 more"),
        ("▁▂▃▄▅▆▇█", "ascii", "_.:-=+*#"),
        ("12 µs · 3", "ascii", "12 us - 3"),
        ("12 µs · 3 → 4", "latin-1", "12 µs · 3 -> 4"),
        ("réseau", "ascii", "reseau"),
        ("漢\ud800", "ascii", "??"),
        ("漢\ud800", "utf-8", "漢?"),
    ],
)
def test_replacements(text: str, encoding: str, expected: str) -> None:
    assert text.encode(encoding, ERRORS).decode(encoding) == expected


def test_a_locale_that_was_not_chosen_changes_nothing() -> None:
    assert not is_ascii_wanted({})
    assert not is_ascii_wanted({"LANG": "de_DE.UTF-8"})
    assert not is_ascii_wanted({"LC_ALL": "C", "PYTHONUTF8": "1"})


@pytest.mark.whole
@pytest.mark.parametrize("variable", ["LANG=C", "LC_ALL=POSIX", "PYTHONIOENCODING=ascii"])
def test_without_utf8_everything_is_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONUTF8", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    name, value = variable.split("=")
    chosen: dict[str, Any] = {name: value}
    first, second = training_run(steps=20, fails_at=None), training_run(steps=30, fails_at=12)
    about = json.loads((plain_run() / "run.json").read_text())
    (first / "run.json").write_text(json.dumps({**about, "cluster": "réseau"}))
    watched = railbed(tmp_path, "watch", second.name, **chosen)
    compared = railbed(tmp_path, "compare", first.name, second.name, "--all", **chosen)
    for result in (watched, compared):
        assert result.code == 0, result
        assert result.out.isascii()
        assert "?" not in result.out
    assert " - done - " in watched.out
    assert "->" in compared.out
    listed = railbed(tmp_path, "runs", "--json", **chosen)
    assert listed.out.isascii()
    assert "réseau" in {record["cluster"] for record in listed.records}
    page = railbed(tmp_path, "report", first.name, "--format", "md", "-o", "-", **chosen)
    assert "réseau" in page.out, "a file is UTF-8 everywhere"
