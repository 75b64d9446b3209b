"""Limits that are defaults of options; in a module that is quick to load, since `--help` shows them."""

from __future__ import annotations

DEVICE_SECONDS = 60.0
"""The longest that one device may take."""
