"""The exit codes, and which error leads to which."""

from __future__ import annotations

from railbed.errors import DeviceError, RailbedError

OK, FOUND, USER, DEVICE, BUG, INTERRUPTED, PIPE = 0, 1, 2, 3, 70, 130, 141


def exit_code(error: RailbedError) -> int:
    """Return the exit code that an error leads to."""
    return DEVICE if isinstance(error, DeviceError) else USER
