"""Collecting commands in sets and compiling them into one tree per mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from switchlab.nexus.cli import grammar
from switchlab.nexus.cli.arguments import argument
from switchlab.nexus.cli.context import Context, Result
from switchlab.nexus.model.platform import Platform
from switchlab.nexus.model.settings import BOTH

Handler = Callable[[Context, "Match"], Result]


@dataclass(frozen=True, slots=True)
class Command:
    mode: str
    pattern: str
    handler: Handler
    families: tuple[str, ...] = BOTH
    feature: str | None = None
    changes: bool = False


Match = grammar.Match[Command]
Tree = grammar.Node[Command]


@dataclass
class CommandSet:
    """Commands of one area; modules fill one each, and the interpreter joins them."""

    commands: list[Command] = field(default_factory=list)

    def add(
        self, mode: str, *patterns: str, families: tuple[str, ...] = BOTH, feature: str | None = None
    ) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            changes = mode not in ("exec", "any")
            self.commands += [Command(mode, pattern, handler, families, feature, changes) for pattern in patterns]
            return handler

        return register


class Trees:
    """The command trees of a switch, compiled for its platform and the features that are enabled."""

    def __init__(self, commands: Iterable[Command], platform: Platform) -> None:
        self._commands = [command for command in commands if platform.family in command.families]
        self._compiled: dict[tuple[str, frozenset[str]], Tree] = {}
        self._features = frozenset(command.feature for command in self._commands if command.feature)

    def tree(self, mode: str, features: set[str]) -> Tree:
        key = mode, self._features & features
        if key not in self._compiled:
            self._compiled[key] = self._compile(mode, features)
        return self._compiled[key]

    def _compile(self, mode: str, features: set[str]) -> Tree:
        root = Tree()
        for command in self._commands:
            if command.mode == mode and (command.feature is None or command.feature in features):
                for elements in grammar.expand(command.pattern):
                    root.insert(elements, command, argument)
        return root
