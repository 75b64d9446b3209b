"""The fix that writes one value to a file of the kernel."""

from __future__ import annotations

from railbed.check.site import PortView
from railbed.model.fix import Fix, Persistence, run, write_value


def set_value(port: PortView, file: str, *, before: int, after: int, alternative: str = "", note: str = "") -> Fix:
    """Write a value to sysfs, configfs or debugfs, which forget it at reboot; connections that exist keep theirs."""
    return Fix(
        device=port.node.name,
        apply=run(write_value(after, file)),
        undo=run(write_value(before, file)),
        persistence=Persistence.BOOT,
        alternative=alternative,
        note=note,
    )
