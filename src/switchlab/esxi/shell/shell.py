"""The shell: runs the commands of a line on the host, one after another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from switchlab.esxi.commands.outcome import CommandOutput
from switchlab.esxi.model.host import Host
from switchlab.esxi.shell.filters import FILTERS, run_filter
from switchlab.esxi.shell.programs import PROGRAMS, read_file
from switchlab.esxi.shell.syntax import NAME, Loop, Part, Pipeline, Script, ShellFault, ShellWord, Simple, parse

MAX_LINE = 65_536
MAX_OUTPUT = 4_000_000
MAX_COMMANDS = 5_000
NOT_FOUND, INTERRUPTED = 127, 130
FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/vmware/bin/")
SMALL = ("echo", "printf", "true", "false", ":", "exit", "cat", "cd", "export", "set", "sleep", "command", "which")
PLAIN_FILTERS = ("head", "tail", "wc", "sort", "uniq")
"""Filters whose first word is a file already."""
Ready = Callable[[str], Awaitable[bool]]


async def _always(_command: str) -> bool:
    return True


class Left(Exception):
    """The shell has ended."""


@dataclass
class Shell:
    host: Host
    write: Callable[[str], None]
    write_error: Callable[[str], None]
    ready: Ready = _always
    """Waits while a command is held; False if it must not run any more."""
    status: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    _commands: int = 0
    _depth: int = 0

    @property
    def prompt(self) -> str:
        return f"[root@{self.host.hostname.partition('.')[0]}:~] "

    async def run(self, text: str) -> int:
        """Run a line or a script; return the status of the last command, also if `exit` ended it."""
        if len(text) > MAX_LINE:
            self.write_error("-sh: line too long\n")
            self.status = 2
            return self.status
        try:
            await self._script(parse(text), self.write)
        except ShellFault as fault:
            self.write_error(f"-sh: {fault}\n")
            self.status = 2
        return self.status

    async def _script(self, script: Script, write: Callable[[str], None]) -> None:
        for pipeline in script:
            if (pipeline.condition == "&&" and self.status) or (pipeline.condition == "||" and not self.status):
                continue
            await self._pipeline(pipeline, write)

    async def _pipeline(self, pipeline: Pipeline, write: Callable[[str], None]) -> None:
        text = ""
        for command in pipeline.commands:
            if isinstance(command, Loop):
                text = await self._loop(command)
            else:
                text = await self._simple(command, text)
            text = text[:MAX_OUTPUT]
        write(text)

    async def _loop(self, loop: Loop) -> str:
        pieces: list[str] = []
        self.status = 0
        for value in await self._expand(loop.words):
            self.variables[loop.name] = value
            await self._script(loop.body, pieces.append)
            if sum(map(len, pieces)) > MAX_OUTPUT:
                break
        return "".join(pieces)

    async def _simple(self, command: Simple, text: str) -> str:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise ShellFault("out of memory")
        words = await self._expand(command.words)
        while words and "=" in words[0] and NAME.fullmatch(words[0].partition("=")[0]):
            name, _, value = words.pop(0).partition("=")
            self.variables[name] = value
        if not words:
            self.status = 0
            return ""
        outcome = await self._run(words, text)
        self.status = outcome.status
        return self._redirect(command, outcome)

    def _redirect(self, command: Simple, outcome: CommandOutput) -> str:
        """Write errors, and return what goes on to standard output."""
        streams = {1: outcome.text, 2: outcome.error}
        places = {1: 1, 2: 2}
        for redirection in command.redirections:
            if redirection.stream == 0:
                continue
            if redirection.target in ("&1", "&2"):
                places[redirection.stream] = places[int(redirection.target[1])]
            elif redirection.target == "/dev/null":
                places[redirection.stream] = 0
            else:
                self.status = 1
                self.write_error(f"-sh: can't create {redirection.target}: Permission denied\n")
                return ""
        out = "".join(text for stream, text in streams.items() if places[stream] == 1)
        error = "".join(text for stream, text in streams.items() if places[stream] == 2)
        if error:
            self.write_error(error)
        return out

    async def _run(self, words: Sequence[str], text: str) -> CommandOutput:
        name, arguments = words[0], words[1:]
        for folder in FOLDERS:
            name = name.removeprefix(folder)
        if name in SMALL:
            return self._small(name, arguments, text)
        if name in FILTERS:
            return self._filter(name, arguments, text)
        line = " ".join(words)
        self.host.commands.append(line)
        faults = self.host.faults
        if not await self.ready(line):
            raise Left
        error = faults.error_for(line)
        if error:
            outcome = CommandOutput(error, 1)
        elif name in PROGRAMS and "/" not in name:
            outcome = PROGRAMS[name](self.host, arguments)
        else:
            outcome = CommandOutput("", NOT_FOUND, f"-sh: {words[0]}: not found\n")
        if faults.count_command():
            self.host.drop_connections()
            raise Left
        return outcome

    def _filter(self, name: str, arguments: Sequence[str], text: str) -> CommandOutput:
        """Run a filter over its input, or over the file that its last argument names."""
        words = [word for word in arguments if not word.startswith("-")]
        if len(words) > (name not in PLAIN_FILTERS) and words[-1].startswith("/"):
            content = read_file(self.host, words[-1])
            if content is None:
                return CommandOutput("", 1, f"{name}: {words[-1]}: No such file or directory\n")
            return run_filter(name, arguments[:-1], content)
        return run_filter(name, arguments, text)

    def _small(self, name: str, arguments: Sequence[str], text: str) -> CommandOutput:
        match name:
            case "echo":
                newline = "" if arguments[:1] == ["-n"] else "\n"
                return CommandOutput(" ".join(arguments[not newline :]) + newline)
            case "printf":
                return CommandOutput(_printf(arguments))
            case "false":
                return CommandOutput("", 1)
            case "exit":
                value = arguments[0] if arguments else str(self.status)
                self.status = int(value) & 0xFF if value.isascii() and value.isdigit() and len(value) < 9 else 2
                raise Left
            case "cat":
                return self._cat(arguments, text)
            case "command" | "which":
                wanted = arguments[-1] if arguments else ""
                exists = wanted in PROGRAMS or wanted in FILTERS or wanted in SMALL
                return CommandOutput(f"/bin/{wanted}\n") if exists else CommandOutput("", 1)
        return CommandOutput()

    def _cat(self, arguments: Sequence[str], text: str) -> CommandOutput:
        if not arguments:
            return CommandOutput(text)
        shown, errors = "", ""
        for path in arguments:
            content = read_file(self.host, path)
            if content is None:
                errors += f"cat: can't open '{path}': No such file or directory\n"
            shown += content or ""
        return CommandOutput(shown, int(bool(errors)), errors)

    async def _expand(self, words: Sequence[ShellWord]) -> list[str]:
        """Replace variables and `$(…)`; what is not quoted is split at spaces."""
        expanded: list[str] = []
        for word in words:
            current: str | None = None
            for part in word.parts:
                value = await self._value(part)
                if part.quoted or part.kind == "":
                    current = (current or "") + value
                    continue
                pieces = value.split()
                if pieces and value[:1].isspace() and current is not None:
                    expanded.append(current)
                    current = None
                for number, piece in enumerate(pieces):
                    if number:
                        expanded.append(current or "")
                        current = None
                    current = (current or "") + piece
            if current is not None:
                expanded.append(current)
        return expanded

    async def _value(self, part: Part) -> str:
        if part.kind == "":
            return part.text
        if part.kind == "$":
            return str(self.status) if part.text == "?" else self.variables.get(part.text, "")
        self._depth += 1
        pieces: list[str] = []
        try:
            await self._script(parse(part.text, depth=self._depth), pieces.append)
        finally:
            self._depth -= 1
        return "".join(pieces).rstrip("\n")


def _printf(arguments: Sequence[str]) -> str:
    form, values = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    form = form.replace("\\n", "\n").replace("\\t", "\t")
    out = form
    for mark in ("%s", "%d"):
        while mark in out and values:
            out = out.replace(mark, values.pop(0).replace("%", "\0"), 1)
    return out.replace("%s", "").replace("%d", "0").replace("\0", "%")
