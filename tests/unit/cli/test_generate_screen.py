"""Generated text on the screen."""

from __future__ import annotations

import sys

import pytest

from railbed.cli.run.encoding import SafeStream
from railbed.cli.screens.generate import GenerateScreen
from railbed.model.events import TextPiece


def test_control_characters_of_a_model_are_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", SafeStream(sys.stdout))
    with GenerateScreen(["x"]) as screen:
        for text in ("a\x04", "{\x1b[2J", "[\u202e]"):
            screen.show(TextPiece(prompt=0, text=text))
    assert capsys.readouterr().out == "a\ufffd{\ufffd[2J[\ufffd]"
