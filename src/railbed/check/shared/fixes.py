"""Fixes that several rules share."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.fix import Fix, Persistence, run, write_value
from railbed.rules.site import NodeView, PortView


def load_modules(node: NodeView, modules: Sequence[str]) -> Fix:
    """Load kernel modules, each after those it needs; undoing unloads them in the opposite order."""
    many = "-a " if len(modules) > 1 else ""
    return Fix(
        device=node.name,
        apply=run(f"modprobe {many}{' '.join(modules)}"),
        undo=run(f"modprobe -r {' '.join(reversed(modules))}"),
        persistence=Persistence.BOOT,
    )


def set_value(port: PortView, file: str, *, before: int, after: int, alternative: str = "", note: str = "") -> Fix:
    """Write a value to sysfs, configfs or debugfs, which lose it at reboot; existing connections keep theirs."""
    return Fix(
        device=port.node.name,
        apply=run(write_value(after, file)),
        undo=run(write_value(before, file)),
        persistence=Persistence.BOOT,
        alternative=alternative,
        note=note,
    )
