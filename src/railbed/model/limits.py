"""Limits that are defaults of options, in a module of their own that loads quickly, since `--help` shows them."""

from __future__ import annotations

DEVICE_SECONDS = 60.0
"""Time limit for one device."""
