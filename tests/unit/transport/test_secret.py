"""Where secrets come from: the environment, a keyring, or the terminal, which asks once."""

from __future__ import annotations

import getpass
import sys

import pytest

from railbed.errors import LoginRefused
from railbed.model.cluster import Secret
from railbed.transport.secret import resolve


def test_the_terminal_is_asked_once_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []

    def answer(question: str) -> str:
        questions.append(question)
        return f"answer {len(questions)}"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(getpass, "getpass", answer)
    switch, node = Secret(prompt="password of the switch"), Secret(prompt="password of the nodes")
    assert [resolve(switch), resolve(node), resolve(switch)] == ["answer 1", "answer 2", "answer 1"]
    assert questions == ["password of the switch: ", "password of the nodes: "]


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(LoginRefused, match="there is no terminal to ask for the sudo password of ada"):
        resolve(Secret(prompt="sudo password of ada"))


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEXUS_PASSWORD", raising=False)
    with pytest.raises(LoginRefused, match="the environment variable NEXUS_PASSWORD is not set"):
        resolve(Secret(env="NEXUS_PASSWORD"))
