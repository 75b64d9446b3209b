"""The fix that loads kernel modules."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.check.site import NodeView
from railbed.model.fix import Fix, Persistence, run


def load_modules(node: NodeView, modules: Sequence[str]) -> Fix:
    """Load modules that are not loaded, each after those it needs; undoing unloads them in the opposite order."""
    many = "-a " if len(modules) > 1 else ""
    return Fix(
        device=node.name,
        apply=run(f"modprobe {many}{' '.join(modules)}"),
        undo=run(f"modprobe -r {' '.join(reversed(modules))}"),
        persistence=Persistence.BOOT,
    )
