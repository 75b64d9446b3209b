"""The token that a page or an exporter asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.cli.verbs.watch.view import own_token, read_token
from railbed.errors import UsageError


def token_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_read_without_its_line_end(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, "0123456789abcdef\n")) == "0123456789abcdef"
    assert read_token(token_file(tmp_path, "0123456789abcdef", 0o400)) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "short", "0123456789 abcdef", "0123456789abcdef\nanother", "ü" * 20, "x" * 4000])
def test_a_bad_token_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="does not hold a token") as refused:
        read_token(token_file(tmp_path, text))
    assert len(text) < 10 or text not in refused.value.message


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match="others can read"):
        read_token(token_file(tmp_path, "0123456789abcdef", mode))


def test_a_token_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(tmp_path / "missing")


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILBED_TOKEN_FILE", raising=False)
    assert own_token() is None
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(f"{'a' * 32}\n")
    monkeypatch.setenv("RAILBED_TOKEN_FILE", str(file))
    assert own_token() == "a" * 32
