"""How work that takes a while reports how far it is."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, int, int], None]
"""Receives the current activity, how much of it is done, and the total; 0 of 0 if unknown."""
