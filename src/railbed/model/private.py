"""Files and folders that only their user may open.

Removes secrets from data before it is stored. No probe reads secrets; this is a second line of defence.

JSON stays JSON: if a text, one of its sections or one of its lines is JSON, only strings in it are changed, and a
number, list, object or null stays as it is, even under a name such as `password`.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path


def for_us_alone(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`: a new file is readable for this user only, and links are not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def make_private(folder: Path) -> None:
    """Create a folder and the missing ones above it, for this user alone; existing ones stay as they are."""
    if not os.path.lexists(folder):
        make_private(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


REMOVED = "<removed>"

_WORD = r"pass(?:word|wd|phrase) | secret | community"
_NAME = rf"(?: {_WORD} | token | (?:api|access|secret|private)[-_ ]?key | authorization ) _* (?![A-Za-z0-9_])"
_QUOTED = r"""(?P<quote>\\*["']) (?![,:\]}\s]) (?:\\.|[^\\\n])*? (?P=quote)"""
_BARE = r"""["']? (?:\\\S|[^\s"])+? (?=[,;)}\]']{0,8} (?:[\s"]|\Z))"""
_SCHEME = r"(?: (?:bearer|basic|digest|negotiate|token) [ \t]+ (?=\S) )?"
_LITERAL = r"""[{\[] (?:\s|["']|\w+:|\Z) | ["'] [,:\]}\s]"""
_JSON_LITERAL = r"[{\[] | (?:-?\d[\d.eE+-]*|null|true|false) (?:[\s,}\]]|\Z)"

_FLAGS = re.IGNORECASE | re.VERBOSE
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL)
_ASSIGNED = re.compile(
    rf"""
    (?P<before> {_NAME} (?: \\*["'] [ \t]* [:=] (?! [ \t]* (?: {_JSON_LITERAL} ) ) | [ \t]* [:=] )
      [:=>]? [ \t]* (?! {_LITERAL} ) {_SCHEME} )
    (?: {_QUOTED} | {_BARE} )
    """,
    _FLAGS,
)
_MENTIONED = re.compile(
    rf"""
    (?P<before> (?<![A-Za-z0-9]) (?: (?:{_WORD}) [ \t]+ (?: [0-9] [ \t]+ )? (?=\S{{6,}})
      | (?:token|bearer) [ \t]+ (?=\S{{6,}}) (?=[^\s\d]{{0,64}}\d) ) (?![:=]) )
    (?: {_QUOTED} | {_BARE} )
    """,
    _FLAGS,
)
_OF_SWITCH = re.compile(
    rf"""
    (?P<before> (?<![A-Za-z0-9]) (?: auth [ \t]+ (?:md5|sha\S{{0,8}}) | priv (?: [ \t]+ (?:aes-128|des) )? | key-string
      | pre-shared-key | (?<=-server\ )key | (?<=[ \t]host\ )\S{{1,253}} [ \t]+ key ) [ \t]+ (?: [0-9] [ \t]+ )? )
    (?: {_QUOTED} | {_BARE} )
    """,
    _FLAGS,
)
"""Keys in the configuration of a switch: of SNMP users, of TACACS and RADIUS servers, and of key chains."""
_IN_URL = re.compile(r"""(://[^\s/:@"'<>]*:)[^\s/"'<>]+@""")
_NAME_AT_END = re.compile(rf"{_NAME} \Z", _FLAGS)
_STRING = r'"(?:[^"\\]|\\.)*"'
_JSON_STRINGS = re.compile(rf"(?P<name>{_STRING})(?P<colon>\s*:\s*)(?P<of>{_STRING})?|(?P<alone>{_STRING})")
_SECTION = re.compile(r"^(==> .* <==\n)", re.MULTILINE)
_SUSPECT = (
    *("pass", "secret", "token", "community", "authorization", "bearer", "://", "\\"),
    *(f"{kind}{between}key" for kind in ("api", "access", "private") for between in ("", "-", "_", " ")),
    *("auth ", "priv ", "server ", "key-string", "pre-shared"),
)
"""A text that contains none of these contains no secret: a search for words takes a tenth of the time of a pattern.

A backslash may be part of an escape that hides a letter. The commonest escapes, a line break and a quote, do not.
"""


def scrub(text: bytes) -> bytes:
    """Return the text without private keys and without the values of passwords, tokens and SNMP communities."""
    # Every record passes through here. Python searches a string five times as fast as bytes.
    if not _is_suspect(text.decode("latin-1").replace(r"\n", "\n").replace(r"\"", '"')):
        return text
    pieces = _SECTION.split(text.decode("utf-8", "surrogateescape"))
    return "".join(map(_scrub_text, pieces)).encode("utf-8", "surrogateescape")


def _is_suspect(text: str) -> bool:
    lower = text.lower()
    for word in _SUSPECT:  # noqa: SIM110  (a generator takes twice as long)
        if word in lower:
            return True
    return False


def _scrub_text(text: str) -> str:
    if _is_json(text):
        return _JSON_STRINGS.sub(_scrub_strings, text)
    if "\n" not in text:
        return _scrub_plain(text)
    clean: list[str] = []
    plain: list[str] = []
    for line in text.split("\n"):
        if _is_json(line):
            clean += [*_scrub_lines(plain), _scrub_text(line)]
            plain = []
        else:
            plain.append(line)
    return "\n".join([*clean, *_scrub_lines(plain)])


def _scrub_lines(lines: list[str]) -> list[str]:
    return [_scrub_plain("\n".join(lines))] if lines else []


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _scrub_strings(match: re.Match[str]) -> str:
    """Return a name with its value, or a string in a list, as JSON without secrets; names stay."""
    name, value = match["name"], match["of"] or match["alone"]
    before = f"{name}{match['colon']}" if name else ""
    if not value:
        return before
    if name and _is_suspect(name) and _NAME_AT_END.search(json.loads(name)):
        return f'{before}"{REMOVED}"'
    text = json.loads(value) if "\\" in value else value[1:-1]
    if not _is_suspect(text):
        return before + value
    clean = _scrub_text(text)
    return before + (value if clean == text else json.dumps(clean))


def _scrub_plain(text: str) -> str:
    text = _PRIVATE_KEY.sub(REMOVED, text)
    text = _IN_URL.sub(rf"\1{REMOVED}@", text)
    for secret in (_ASSIGNED, _MENTIONED, _OF_SWITCH):
        text = secret.sub(_without_value, text)
    return text


def _without_value(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return f"{match['before']}{quote}{REMOVED}{quote}"
