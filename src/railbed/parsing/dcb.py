"""What the four `dcb` probes share: one command for all interfaces, and one parser for its JSON and its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.parsing.lines import Lines
from railbed.parsing.text import integer, json_value

COMPLAINT = re.compile(
    r"(?:Attribute read|RTNETLINK answers|Error): (.+)|(Attribute not found)\b.*|((?:Cannot find device|Wrong len)\b.*)"
    r"|((?:Object|Command) \"[^\"]{0,80}\" is unknown.*)|(\S*sh: .*)"
)
CONTINUED = re.compile(r"\w+:\S+(?:\s+\w+:\S+)*+")
"""A line that a terminal or a mail wrapped: pairs of the map before it."""
WIDTH = 8
"""There are eight priorities, traffic classes and buffers."""


def command(subject: str) -> str:
    """Return the command that shows one object of every interface but loopback; an error appears in its section."""
    return f"""
for path in /sys/class/net/*; do
  name=${{path##*/}}
  [ "$name" = lo ] && continue
  [ -d "$path" ] || continue
  echo "==> $name <=="
  dcb -j {subject} show dev "$name" 2>&1
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Words:
    """The words that follow each keyword: `prio-pfc 0:off 1:on` gives ["0:off", "1:on"]."""

    words: Mapping[str, list[str]]

    def __contains__(self, key: str) -> bool:
        return key in self.words

    def single(self, key: str) -> str | None:
        """Return the only word of a keyword, or None if it is absent."""
        words = self.words.get(key)
        if words is None:
            return None
        if len(words) != 1:
            raise ParseError(f"expected one value of {key}", line=" ".join(words))
        return words[0]

    def number(self, key: str) -> int | None:
        """Return the number that follows a keyword."""
        word = self.single(key)
        return None if word is None else integer(word)

    def switch(self, key: str) -> bool | None:
        """Return whether a keyword is followed by `on`."""
        word = self.single(key)
        return None if word is None else on_or_off(word)

    def pairs(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a map; an absent keyword has none."""
        for word in self.words.get(key, []):
            left, colon, right = word.rpartition(":")
            if not colon:
                raise ParseError(f"expected pairs in {key}", line=word)
            yield left, right

    def row(self, key: str) -> list[str] | None:
        """Return the values of a map from 0 to 7 in order, or None if it is absent."""
        if key not in self:
            return None
        values = {integer(left): right for left, right in self.pairs(key)}
        if sorted(values) != list(range(WIDTH)):
            raise ParseError(f"expected {key} for 0 to 7", line=" ".join(self.words[key]))
        return [values[index] for index in range(WIDTH)]

    def numbers(self, key: str) -> tuple[int, ...] | None:
        """Return the numbers of a map from 0 to 7."""
        row = self.row(key)
        return None if row is None else tuple(integer(value) for value in row)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return the words of a map from 0 to 7."""
        row = self.row(key)
        return None if row is None else tuple(row)


def read_interfaces(lines: Lines, keywords: Collection[str]) -> tuple[dict[str, Words], dict[str, str]]:
    """Return the words of each interface, and the complaint for each that has no such object."""
    interfaces: dict[str, Words] = {}
    refused: dict[str, str] = {}
    if not lines.text.strip():
        return interfaces, refused
    for name, part in lines.sections():
        if part.json:
            interfaces[name] = Words(_from_json(part.json, keywords))
            continue
        body = list(part)
        complaint = next(filter(None, (COMPLAINT.fullmatch(line.strip()) for line in body)), None)
        if complaint and not name and (complaint[4] or complaint[5]):
            lines.refuse("not an output of dcb")
        if complaint:
            refused[name] = next(filter(None, complaint.groups())).strip()
            for line in body:
                if not COMPLAINT.fullmatch(line.strip()):
                    part.unknown(line)
        else:
            words = _from_text(body, keywords, part)
            if name or words or not body:
                interfaces[name] = Words(words)
    if not interfaces and not refused:
        lines.require_known("not an output of dcb")
    return interfaces, refused


def on_or_off(word: str) -> bool:
    """Return `on` as true and `off` as false."""
    if word not in ("on", "off"):
        raise ParseError("expected on or off", line=word)
    return word == "on"


def _from_text(body: list[str], keywords: Collection[str], lines: Lines) -> dict[str, list[str]]:
    words: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in body:
        begins = line.split(None, 1)[0] in keywords
        if not begins and (current is None or not CONTINUED.fullmatch(line.strip())):
            lines.unknown(line)
            continue
        for word in line.split():
            if word in keywords:
                current = words.setdefault(word, [])
            elif current is not None:
                current.append(word)
    return words


def _from_json(text: str, keywords: Collection[str]) -> dict[str, list[str]]:
    value = json_value(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise ParseError("expected a JSON object", line=text.strip()[:80])
    words = {str(key).replace("_", "-"): _words(key, item) for key, item in value.items()}
    return {key: item for key, item in words.items() if key in keywords}


def _words(key: str, value: object) -> list[str]:
    if not isinstance(value, list):
        return [_word(value)]
    if key == "default_prio":
        return [_word(item) for item in value]
    return [_pair(index, item, hexadecimal=key == "ethtype_prio") for index, item in enumerate(value)]


def _pair(index: int, value: object, *, hexadecimal: bool) -> str:
    """Write `[26, 3]` as `26:3` and the value at an index as `index:value`; newer tools add a space to a pair.

    EtherTypes are numbers in JSON and hexadecimal in text.
    """
    if isinstance(value, list):
        if len(value) < 2:
            raise ParseError("expected a pair", line=str(value)[:80])
        key = f"{value[0]:x}" if hexadecimal and type(value[0]) is int else _word(value[0])
        return f"{key}:{_word(value[1])}"
    return f"{index}:{_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, int | str):
        raise ParseError("expected a number or a word", line=str(value)[:80])
    return str(value)
