"""A user's session: one command line in, the text that the switch prints out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from switchlab.nexus.cli.commandset import Trees
from switchlab.nexus.cli.context import Context, Question, Result, Shown
from switchlab.nexus.cli.grammar import SyntaxFault
from switchlab.nexus.cli.interpreter import Interpreter
from switchlab.nexus.cli.pipes import apply_filter, split_commands, split_pipes
from switchlab.nexus.commands.execute import execute
from switchlab.nexus.commands.loader import CONFIG_COMMANDS
from switchlab.nexus.commands.show import show
from switchlab.nexus.model.config import Rejected
from switchlab.nexus.model.platform import Platform
from switchlab.nexus.model.switch import Switch

MAX_LINE = 8192


@cache
def trees_for(platform: Platform) -> Trees:
    """Return the command trees of a platform, which all its sessions share."""
    return Trees([*CONFIG_COMMANDS, *execute.commands, *show.commands], platform)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command printed; a question waits for `Session.answer`."""

    text: str = ""
    failed: bool = False
    question: Question | None = None
    data: Mapping[str, object] | None = None
    paged: bool = True


class Session:
    def __init__(self, switch: Switch, *, user: str = "admin") -> None:
        self.context = Context(switch, user=user)
        self._interpreter = Interpreter(trees_for(switch.platform))

    @property
    def prompt(self) -> str:
        return self.context.prompt

    def commands(self, line: str) -> list[str]:
        """Split a line into its commands, which ` ; ` separates; comments and empty commands are left out."""
        return [command for command in split_commands(line) if command and not command.startswith("!")]

    def execute(self, command: str, *, prompt_width: int = 0) -> Reply:
        """Run one command; every input gets a reply, never an exception."""
        if len(command) > MAX_LINE:
            return Reply("% Command line too long\n", failed=True)
        faults = self.context.switch.faults
        error = faults.error_for(command)
        reply = Reply(error, failed=True) if error else self._run(command, prompt_width)
        if faults.count_command():
            self.context.closing = True
            self.context.switch.drop_connections()
        return reply

    def _run(self, command: str, prompt_width: int) -> Reply:
        first, *filters = split_pipes(command)
        try:
            result = self._interpreter.run(self.context, first.text)
            if not filters:
                return self._reply(result)
            if not isinstance(result, Shown):
                raise SyntaxFault("Invalid command", filters[0].start)
            text, failed = result.text, False
            structured = self.context.switch.platform.family != "n5k"
            for segment in filters:
                text, failed = apply_filter(result, text, segment, structured=structured)
            paged = not any("no-more".startswith(segment.text.strip()) for segment in filters)
            return Reply(text, failed, data=result.data, paged=paged)
        except SyntaxFault as fault:
            return Reply(fault.render(prompt_width), failed=True)
        except Rejected as refusal:
            return Reply(str(refusal), failed=True)

    def answer(self, question: Question, answer: str) -> Reply:
        """Answer a question with yes or no."""
        agreed = answer.strip().lower() in ("y", "yes") if answer.strip() else question.default
        return Reply(question.proceed() if agreed else "")

    def help(self, line: str) -> list[str]:
        return self._interpreter.help(self.context, line)

    def _reply(self, result: Result) -> Reply:
        match result:
            case None:
                return Reply()
            case str():
                return Reply(result)
            case Shown():
                return Reply(result.text, data=result.data)
            case Question() if self.context.dont_ask:
                return Reply(result.proceed())
            case Question():
                return Reply(result.text, question=result)
