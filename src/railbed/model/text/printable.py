"""Makes foreign text safe for a terminal or a page: escape sequences, control and direction characters.

Device output could otherwise control the terminal: hide lines, change the title, or fake a verdict.
"""

from __future__ import annotations

import unicodedata

CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories: control, format (with direction), surrogate, private use, unassigned, line separators."""
ALLOWED = "\n\t"
REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Replace control characters with �; line ends and tabs stay."""
    if _is_harmless(text):
        return text
    return "".join(REPLACEMENT if _is_control(char) else char for char in text)


def printable(text: str) -> str:
    """Return the text on one line, with a space for each character that is not printed."""
    return "".join(char if char.isprintable() else " " for char in text)


def escaped(text: str, *, ascii_only: bool = False) -> str:
    """Return equivalent JSON in which every control character is written as a JSON escape; or all but ASCII."""
    if _is_harmless(text):
        return text
    return "".join(_escape(char) if _is_control(char) or (ascii_only and not char.isascii()) else char for char in text)


def _is_harmless(text: str) -> bool:
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def _is_control(char: str) -> bool:
    return char not in ALLOWED and unicodedata.category(char) in CONTROL_CATEGORIES


def _escape(char: str) -> str:
    code = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
