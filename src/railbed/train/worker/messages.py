"""How a training rank talks to the one who started it: as every rank does."""

from __future__ import annotations

from railbed.launch.messages import BEAT_SECONDS, NOBODY_LISTENS, Messages

__all__ = ["BEAT_SECONDS", "NOBODY_LISTENS", "Messages"]
