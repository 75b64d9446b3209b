"""The state of a command-line session, and what a command may return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from switchlab.nexus.model.config import Config
from switchlab.nexus.model.switch import Switch


@dataclass(frozen=True, slots=True)
class Mode:
    """A configuration mode: its command tree, its prompt, and what it configures."""

    name: str
    prompt: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a show command: as text, and as data for `| json` if NX-OS supports it."""

    text: str
    data: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A command that waits for y or n; `default` is what an empty answer means."""

    text: str
    proceed: Callable[[], str]
    default: bool = False


Result = str | Shown | Question | None
CONFIG = Mode("config", "config")


@dataclass(slots=True)
class Context:
    switch: Switch
    modes: list[Mode] = field(default_factory=list)
    terminal_length: int = 0
    terminal_width: int = 80
    dont_ask: bool = False
    closing: bool = False
    user: str = "admin"

    @property
    def config(self) -> Config:
        return self.switch.running

    @property
    def mode(self) -> Mode:
        return self.modes[-1]

    @property
    def prompt(self) -> str:
        inside = f"({self.modes[-1].prompt})" if self.modes else ""
        return f"{self.config.hostname}{inside}# "

    def enter(self, mode: Mode) -> None:
        self.modes.append(mode)
