"""The kinds of arguments that commands take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from switchlab.nexus.cli.grammar import Argument, SyntaxFault, Taken, Token
from switchlab.nexus.model.render import compress

DSCP_NAMES = {
    "default": 0,
    "ef": 46,
    **{f"cs{number}": number * 8 for number in range(1, 8)},
    **{f"af{group}{drop}": group * 8 + drop * 2 for group in range(1, 5) for drop in range(1, 4)},
}
INTERFACE_KINDS = {
    "ethernet": "Ethernet",
    "mgmt": "mgmt",
    "vlan": "Vlan",
    "port-channel": "port-channel",
    "loopback": "loopback",
}
MAX_DIGITS = 10
MAX_INTERFACES = 4096
_RANGE = re.compile(r"((?:[0-9]{1,5}/){0,3})([0-9]{1,5})(?:-(?:[0-9]{1,5}/){0,3}([0-9]{1,5}))?")
_NAME = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Word:
    """A name; NX-OS limits those of classes and policies to 40 characters."""

    help: str = "WORD"
    longest: int = 40

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        text = tokens[0].text
        if not _NAME.fullmatch(text):
            return None
        if len(text) > self.longest:
            raise SyntaxFault(f"String exceeded max length of ({self.longest})", tokens[0].start)
        return Taken(text, text)


@dataclass(frozen=True)
class Line:
    """The rest of the line."""

    help: str = "LINE"

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        text = " ".join(token.text for token in tokens)
        return Taken(text, text, len(tokens)) if text else None


@dataclass(frozen=True)
class Number:
    low: int
    high: int

    @property
    def help(self) -> str:
        return f"<{self.low}-{self.high}>"

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        text = tokens[0].text
        if not (text.isascii() and text.isdigit()):
            return None
        if len(text) > MAX_DIGITS or not self.low <= int(text) <= self.high:
            raise SyntaxFault("Invalid number", tokens[0].start)
        return Taken(int(text), str(int(text)))


@dataclass(frozen=True)
class NumberList:
    """Numbers and ranges such as `24-31,46`; for DSCP also names."""

    low: int
    high: int
    named: bool = False

    @property
    def help(self) -> str:
        return f"<{self.low}-{self.high}>"

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        numbers: set[int] = set()
        for part in tokens[0].text.lower().split(","):
            if self.named and part in DSCP_NAMES:
                numbers.add(DSCP_NAMES[part])
                continue
            bounds = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
            if bounds is None:
                return None
            first, last = int(bounds[1]), int(bounds[2] or bounds[1])
            if not self.low <= first <= last <= self.high:
                raise SyntaxFault("Invalid number", tokens[0].start)
            numbers.update(range(first, last + 1))
        return Taken(tuple(sorted(numbers)), compress(numbers))


@dataclass(frozen=True)
class Interfaces:
    """One interface, or a list of them: `e1/1`, `ethernet 1/1-4`, `Ethernet1/1-4, Ethernet1/7`."""

    several: bool = False
    help: str = "ethernet, mgmt, vlan, port-channel, loopback"

    def take(self, tokens: Sequence[Token]) -> Taken | None:
        if interface_kind(leading_letters(tokens[0].text)) is None:
            return None
        used = 2 if interface_kind(tokens[0].text) and len(tokens) > 1 else 1
        if self.several:
            while len(tokens) > used and (tokens[used - 1].text.endswith(",") or tokens[used].text.startswith(",")):
                used += 1
        text = "".join(token.text for token in tokens[:used])
        if interface_kind(text):
            raise SyntaxFault("Incomplete command", tokens[0].start + len(text))
        names = expand_interfaces(text)
        if names is None or (len(names) > 1 and not self.several):
            raise SyntaxFault("Invalid interface format", tokens[0].start)
        return Taken(names, text if self.several else names[0], used)


def interface_kind(text: str) -> str | None:
    """Return the full name of an interface kind that may be abbreviated."""
    candidates = [full for kind, full in INTERFACE_KINDS.items() if text and kind.startswith(text.lower())]
    if text.lower() == "po":
        return "port-channel"
    return candidates[0] if len(candidates) == 1 else None


def leading_letters(text: str) -> str:
    return re.split(r"[0-9]", text, maxsplit=1)[0]


def expand_interfaces(text: str) -> list[str] | None:
    """Return the interfaces that a list with ranges names, or None if it is malformed."""
    names: list[str] = []
    kind: str | None = None
    for part in filter(None, text.replace(" ", "").split(",")):
        letters = leading_letters(part)
        kind = interface_kind(letters) if letters else kind
        bounds = _RANGE.fullmatch(part[len(letters) :])
        if kind is None or bounds is None:
            return None
        first, last = int(bounds[2]), int(bounds[3] or bounds[2])
        if last < first or last - first + len(names) > MAX_INTERFACES:
            return None
        names += [f"{kind}{bounds[1]}{number}" for number in range(first, last + 1)]
    return names or None


def argument(element: str) -> Argument:
    """Return the argument that a pattern's `<name:type>` stands for."""
    name, _, kind = element.strip("<>").partition(":")
    kinds: dict[str, Argument] = {
        "name": Word(),
        "long": Word(longest=80),
        "text": Word(longest=512),
        "line": Line(),
        "interface": Interfaces(),
        "interfaces": Interfaces(several=True),
        "dscp": NumberList(0, 63, named=True),
    }
    if (kind or name) in kinds:
        return kinds[kind or name]
    low, _, high = kind.removeprefix("*").partition("-")
    return NumberList(int(low), int(high)) if kind.startswith("*") else Number(int(low), int(high))
