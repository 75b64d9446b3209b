"""Takes secrets out of what a recording keeps. No probe reads any; this is the second lock."""

from __future__ import annotations

import re

REMOVED = rb"<removed>"

_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL)
_NAMED = re.compile(
    rb"""(?ix)
    \b( pass(?:word|wd|phrase) | secret | (?:auth|access|api|bearer)?[-_ ]?token | api[-_]?key | community )
    ( ["']? \s* [:=] \s* ["']? | \s+ (?: [0-9] \s+ )? (?= \S{6,} ) )
    ( [^\s"',;}]+ )
    """
)


def scrub(text: bytes) -> bytes:
    """Return the text without private keys and without the values of passwords, tokens and SNMP communities."""
    text = _PRIVATE_KEY.sub(REMOVED, text)
    return _NAMED.sub(rb"\1\2" + REMOVED, text)
