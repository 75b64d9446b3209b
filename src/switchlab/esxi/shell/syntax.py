"""The syntax of the shell: lists with `;`, `&&`, `||` and `|`, quotes, variables, `$(…)`, `for` and redirections."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

OPERATORS = ("&&", "||", ";", "|", "\n")
REDIRECTION = re.compile(r"([0-2]?)(>>|>&|>|<)\s*([0-9A-Za-z_./-]*)")
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*|[?$#0-9]))", re.ASCII)
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
MOST_NESTED = 8


class ShellFault(Exception):
    """A line that the shell does not understand."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a word: text, a variable (`$`), or the output of commands (`(`)."""

    kind: str
    text: str
    quoted: bool


@dataclass(slots=True)
class ShellWord:
    parts: list[Part] = field(default_factory=list)

    @property
    def literal(self) -> str | None:
        """The word itself, if nothing in it is quoted or replaced."""
        plain = all(part.kind == "" and not part.quoted for part in self.parts)
        return "".join(part.text for part in self.parts) if plain else None


@dataclass(frozen=True, slots=True)
class Redirection:
    stream: int
    target: str
    """A path, or `&1` and `&2`; empty stands for input."""


@dataclass(slots=True)
class Simple:
    """A command with its words."""

    words: list[ShellWord] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """`for name in words; do …; done`."""

    name: str
    words: list[ShellWord]
    body: Script


@dataclass(slots=True)
class Pipeline:
    commands: list[Simple | Loop]
    condition: str = ""
    """`&&` or `||` if it depends on the status of the one before."""


Script = list[Pipeline]
Token = str | ShellWord | Redirection


def parse(text: str, *, depth: int = 0) -> Script:
    """Return what a script does; raise ShellFault with what the shell complains about."""
    if depth > MOST_NESTED:
        raise ShellFault("syntax error: too many levels")
    return _Parser(list(_Lexer(text).tokens())).script(())


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> list[Token]:
        tokens: list[Token] = []
        while self._at < len(self._text):
            rest_starts = self._text[self._at]
            operator = next((item for item in OPERATORS if self._text.startswith(item, self._at)), None)
            redirection = REDIRECTION.match(self._text, self._at)
            if operator:
                tokens.append(operator)
                self._at += len(operator)
            elif rest_starts in " \t\r":
                self._at += 1
            elif rest_starts == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif redirection:
                tokens.append(self._redirection(redirection))
            elif rest_starts in "&()":
                raise ShellFault(f'syntax error: unexpected "{rest_starts}"')
            else:
                tokens.append(self._word())
        return tokens

    def _redirection(self, match: re.Match[str]) -> Redirection:
        stream, sign, target = match.groups()
        self._at = match.end()
        if not target:
            raise ShellFault("syntax error: unexpected newline")
        if sign == "<":
            return Redirection(0, target)
        return Redirection(int(stream or "1"), f"&{target}" if sign == ">&" else target)

    def _word(self) -> ShellWord:
        word = ShellWord()
        quote = ""
        while self._at < len(self._text):
            character = self._text[self._at]
            if quote == "'":
                end = self._text.find("'", self._at)
                if end < 0:
                    break
                word.parts.append(Part("", self._text[self._at : end], quoted=True))
                self._at, quote = end + 1, ""
            elif character == '"':
                quote = "" if quote else '"'
                word.parts.append(Part("", "", quoted=True))
                self._at += 1
            elif not quote and character == "'":
                quote = "'"
                self._at += 1
            elif not quote and character in " \t\r\n;|&<>()":
                break
            else:
                self._character(word, character, quote)
        if quote:
            raise ShellFault("syntax error: unterminated quoted string")
        return word

    def _character(self, word: ShellWord, character: str, quote: str) -> None:
        quoted = bool(quote)
        variable = VARIABLE.match(self._text, self._at)
        if character == "\\" and self._at + 1 < len(self._text):
            follows = self._text[self._at + 1]
            escapes = not quote or follows in '"\\$`'
            word.parts.append(Part("", follows if escapes else f"\\{follows}", quoted=True))
            self._at += 2
        elif variable:
            word.parts.append(Part("$", variable[1] or variable[2], quoted))
            self._at = variable.end()
        elif self._text.startswith("$(", self._at):
            end = self._closing(self._at + 2)
            word.parts.append(Part("(", self._text[self._at + 2 : end], quoted))
            self._at = end + 1
        else:
            word.parts.append(Part("", character, quoted))
            self._at += 1

    def _closing(self, start: int) -> int:
        """Return where the parenthesis before `start` is closed."""
        depth, quote = 1, ""
        for at in range(start, len(self._text)):
            character = self._text[at]
            if quote:
                quote = "" if character == quote else quote
            elif character in "'\"":
                quote = character
            else:
                depth += {"(": 1, ")": -1}.get(character, 0)
            if not depth:
                return at
        raise ShellFault('syntax error: unexpected end of file (expecting ")")')


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def script(self, ends: tuple[str, ...]) -> Script:
        """Read pipelines up to a word that ends the list, or the end."""
        script: Script = []
        condition = ""
        while True:
            while self._peek() in (";", "\n"):
                if condition and self._peek() == ";":
                    raise ShellFault('syntax error: unexpected ";"')
                self._at += 1
            if self._at >= len(self._tokens) or self._literal() in ends:
                if condition or (ends and self._at >= len(self._tokens)):
                    raise ShellFault("syntax error: unexpected end of file")
                return script
            script.append(Pipeline(self._pipeline(), condition))
            condition = ""
            if self._peek() in ("&&", "||"):
                condition = str(self._peek())
                self._at += 1

    def _pipeline(self) -> list[Simple | Loop]:
        commands = [self._command()]
        while self._peek() == "|":
            self._at += 1
            commands.append(self._command())
        return commands

    def _command(self) -> Simple | Loop:
        if self._literal() == "for":
            return self._loop()
        if self._literal() in ("do", "done", "in", "then", "fi", "if", "while", "case", "until", "{", "}"):
            raise ShellFault(f'syntax error: unexpected "{self._literal()}"')
        simple = Simple()
        while isinstance(token := self._peek(), ShellWord | Redirection):
            self._at += 1
            if isinstance(token, ShellWord):
                simple.words.append(token)
            else:
                simple.redirections.append(token)
        if not simple.words and not simple.redirections:
            raise ShellFault(f'syntax error: unexpected "{self._next()}"')
        return simple

    def _loop(self) -> Loop:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise ShellFault("syntax error: too many levels")
        self._at += 1
        name = self._literal() or ""
        if not NAME.fullmatch(name):
            raise ShellFault("syntax error: bad for loop variable")
        self._at += 1
        self._expect("in")
        words: list[ShellWord] = []
        while isinstance(token := self._peek(), ShellWord):
            words.append(token)
            self._at += 1
        while self._peek() in (";", "\n"):
            self._at += 1
        self._expect("do")
        body = self.script(("done",))
        self._expect("done")
        self._depth -= 1
        return Loop(name, words, body)

    def _expect(self, word: str) -> None:
        if self._literal() != word:
            raise ShellFault(f'syntax error: unexpected "{self._next()}" (expecting "{word}")')
        self._at += 1

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        """Return what comes next, as a complaint has it."""
        token = self._peek()
        return token if isinstance(token, str) else self._literal() or ("word" if token else "end of file")

    def _literal(self) -> str | None:
        token = self._peek()
        return token.literal if isinstance(token, ShellWord) else None
