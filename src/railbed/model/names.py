"""Names for the cluster file, made from host names and other free text."""

from __future__ import annotations

import re

NAME_LENGTH = 64


def name_from(text: str) -> str:
    """Turn a text into a name for the cluster file; empty if none of its characters are allowed."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-._")[:NAME_LENGTH].rstrip("-._")
