"""Names for the cluster file, made from whatever machines and people call a device."""

from __future__ import annotations

import re

NAME_LENGTH = 64


def name_from(text: str) -> str:
    """Turn a text into a name for the cluster file; empty where none of its characters are allowed."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-._")[:NAME_LENGTH].rstrip("-._")
