"""The process around the command line: `railbed` and `python -m railbed`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading

COLLECT_AFTER = 50_000
"""New objects until they are searched for garbage: with Python's 700, loading a verb's modules takes a tenth longer."""


def main() -> None:
    """Run the command line and end the process.

    Loading modules creates no garbage, and modules live until the end. Excluding them from garbage collection saves a
    fifth of a second at every start and end.
    """
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # there are none, and searching for them takes time
    try:
        from railbed.cli.run import signals

        signals.listen()
        from railbed.cli.main import run

        code = run(loaded=_collect_from_now_on)
    except KeyboardInterrupt:
        sys.stderr.write("railbed: interrupted\n")
        code = 130
    gc.freeze()
    _end(code)


def _end(code: int) -> None:
    """End the process; at once if a daemon thread still runs, since one outside Python would crash the interpreter."""
    if any(thread.daemon for thread in threading.enumerate()):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _collect_from_now_on() -> None:
    gc.enable()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


if __name__ == "__main__":
    main()
