"""The interactive side of a session: line editing, `?`, Tab, and paging with --More--."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from switchlab.nexus.session import MAX_LINE, Reply, Session

MORE = "--More--"
ENTER, INTERRUPT, END_OF_INPUT, END_MODE = "\r", "\x03", "\x04", "\x1a"
ERASE = ("\x7f", "\x08")


class Disconnected(Exception):
    """The client has gone, or was idle for too long."""


@dataclass
class Keyboard:
    """Characters from a client, one at a time; `read` returns an empty string at the end of input."""

    read: Callable[[], Awaitable[str]]
    before_read: Callable[[], None] = lambda: None
    _pending: Iterator[str] = field(default_factory=lambda: iter(""))
    _after_return: bool = False

    async def next(self) -> str:
        while True:
            key = next(self._pending, "")
            if not key:
                self.before_read()
                chunk = await self.read()
                if not chunk:
                    raise Disconnected
                self._pending = iter(chunk)
                continue
            follows_return, self._after_return = self._after_return, key == "\r"
            if key == "\n" and follows_return:
                continue  # a client that sends CR LF means one Enter
            return ENTER if key == "\n" else key


@dataclass
class Terminal:
    """Output is collected and sent whenever the switch waits for the client: one packet per pause, not per key."""

    session: Session
    keys: Keyboard
    send: Callable[[str], None]
    echo: bool = True
    _line: str = field(init=False, default="")
    _unsent: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.keys.before_read = self._flush

    async def run(self) -> None:
        """Serve commands until the user leaves."""
        try:
            self.write(self.session.prompt)
            async for line in self._lines():
                await self._run_line(line)
                if self.session.context.closing:
                    return
                self.write(self.session.prompt)
        except Disconnected:
            return
        finally:
            self._flush()

    def write(self, text: str) -> None:
        self._unsent.append(text)

    def _flush(self) -> None:
        if self._unsent:
            self.send("".join(self._unsent))
            self._unsent.clear()

    async def _lines(self) -> AsyncIterator[str]:
        while True:
            self._line = ""
            while (key := await self.keys.next()) != ENTER:
                if key == END_OF_INPUT and not self._line:
                    raise Disconnected
                await self._edit(key)
            self._echo("\n")
            yield self._line

    async def _edit(self, key: str) -> None:
        if key in ERASE:
            if self._line:
                self._line = self._line[:-1]
                self._echo("\b \b")
        elif key in (INTERRUPT, END_MODE):
            self._abandon_line(leave=key == END_MODE)
        elif key == "\x15":
            self._echo("\b \b" * len(self._line))
            self._line = ""
        elif key == "?" and '"' not in self._line:
            self._show_help()
        elif key == "\t":
            self._complete()
        elif key == "\x1b":
            await self._skip_escape()
        elif key.isprintable() and len(self._line) <= MAX_LINE:
            self._line += key
            self._echo(key)

    def _abandon_line(self, *, leave: bool) -> None:
        self._line = ""
        if leave:
            self.session.context.modes.clear()
        self.write(f"\n{self.session.prompt}")

    async def _skip_escape(self) -> None:
        """Swallow an arrow key or a similar sequence; there is no history."""
        if await self.keys.next() == "[":
            for _ in range(8):
                if (await self.keys.next()).isalpha():
                    return

    def _show_help(self) -> None:
        entries = self.session.help(self._line)
        listing = "".join(f"  {entry}\n" for entry in entries) or "% Invalid command\n"
        self._echo("?")
        self.write(f"\n{listing}\n{self.session.prompt}{self._line}")

    def _complete(self) -> None:
        word = self._line.rsplit(" ", 1)[-1]
        entries = [entry for entry in self.session.help(self._line) if word and entry.startswith(word.lower())]
        if len(entries) == 1:
            rest = entries[0][len(word) :] + " "
            self._line += rest
            self._echo(rest)

    def _echo(self, text: str) -> None:
        if self.echo:
            self.write(text)

    async def _run_line(self, line: str) -> None:
        for command in self.session.commands(line):
            start = len(self.session.prompt) + max(line.find(command), 0)
            reply = self.session.execute(command, prompt_width=start)
            if reply.question is not None:
                reply = await self._ask(reply)
            if self.session.context.closing:
                return
            await self._page(reply)

    async def _ask(self, reply: Reply) -> Reply:
        assert reply.question is not None
        self.write(reply.text)
        answer = ""
        while (key := await self.keys.next()) != ENTER:
            if key == INTERRUPT:
                answer = "n"
                break
            answer += key if key.isprintable() and len(answer) < 16 else ""
            self._echo(key if key.isprintable() else "")
        self.write("\n")
        return self.session.answer(reply.question, answer)

    async def _page(self, reply: Reply) -> None:
        """Write output, stopping after each screen unless the terminal length is 0 or `no-more` was asked for."""
        length = self.session.context.terminal_length
        lines = reply.text.splitlines(keepends=True)
        if length == 0 or not reply.paged:
            self.write(reply.text)
            return
        room = max(length - 1, 1)
        while len(lines) > room:
            self.write("".join(lines[:room]) + MORE)
            lines = lines[room:]
            key = await self.keys.next()
            self.write("\r" + " " * len(MORE) + "\r")
            if key in ("q", "Q", INTERRUPT):
                return
            room = 1 if key == ENTER else max(length - 1, 1)
        self.write("".join(lines))
