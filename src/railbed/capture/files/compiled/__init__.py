"""The second engine: packet by packet, compiled by numba, which is needed nowhere else. Read `engine.py` first.

The order of its tests is that of the numpy engine, so that a packet is left out for the same reason.
"""

from __future__ import annotations

import os
from pathlib import Path

from railbed.errors import os_reason
from railbed.store.cache import make_folder, refuse_planted

try:
    from numba.core import config
except Exception as error:
    raise ImportError(f"numba does not start: {type(error).__name__}") from error

# numba takes settings from a file in the current folder, where others may write, at the start and before it compiles
# anything: such as where compiled code is, which it would run.
config._config_fname = ""  # noqa: SLF001
config.reload_config()  # type: ignore[no-untyped-call]


def _folder() -> str:
    """Return the folder of the compiled code, which is run as it is stored; empty means beside the source.

    numba itself would use any folder that the environment names, or that is in a HOME of somebody else.
    """
    if os.access(Path(__file__).parent, os.W_OK | os.X_OK, effective_ids=True):
        return ""
    try:
        folder = make_folder("compiled")
    except OSError as error:
        raise ImportError(f"numba can store its code nowhere: {os_reason(error)}") from error
    refuse_planted(folder)
    return str(folder)


config.CACHE_DIR = _folder()  # type: ignore[attr-defined]
