"""The lab that the verbs of `railbed lab` work on: the named one, that of cluster.yaml here, or the only one."""

from __future__ import annotations

import sys

from railbed import clusterfile
from railbed.errors import ClusterFileError, UsageError
from railbed.lab import folder
from railbed.present.wording import DEFAULT_CLUSTER


def lab_here() -> str | None:
    """Return the name of the lab whose cluster file is in this folder; None if there is none."""
    if not DEFAULT_CLUSTER.exists():
        return None
    try:
        return folder.lab_of(clusterfile.load(DEFAULT_CLUSTER))
    except ClusterFileError:
        return None  # the verbs that need it explain what is wrong


def named_or_here(name: str | None) -> str | None:
    """Return the named lab, or that of this folder's cluster file; None leaves it to the only lab.

    If the file decides between several labs, its lab is named on standard error.
    """
    here = lab_here() if name is None else None
    if here is None:
        return name
    labs = [lab.spec.name for lab in folder.load_labs()]
    if labs and here not in labs:
        raise UsageError(
            f"{DEFAULT_CLUSTER} in this folder is of lab {here!r}, which is not up",
            hint=f"existing labs: {', '.join(labs)}; --name chooses one",
        )
    if len(labs) > 1:
        sys.stderr.write(f"lab {here!r}, of {DEFAULT_CLUSTER} in this folder\n")
    return here if labs else None
