"""The second engine: packet by packet, compiled by numba, which is needed nowhere else.

The order of its tests is that of the numpy engine, so that a packet is left out for the same reason.
"""

from __future__ import annotations

try:
    from numba.core import config
except Exception as error:
    raise ImportError(f"numba does not start: {type(error).__name__}") from error

# numba takes settings from a file in the current folder, where others may write, at the start and before it compiles
# anything: such as where compiled code is, which it would run.
config._config_fname = ""  # noqa: SLF001
config.reload_config()  # type: ignore[no-untyped-call]
