"""The Python packages that railbed's extras consist of, for messages about what is missing.

Commands in messages name these packages, never railbed itself: a package index would install whatever somebody has
registered there under that name.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "capture": ("backports.zstd>=1.5", "numba>=0.65"),
    "keyring": ("keyring>=25.7",),
    "mpi": ("mpi4py>=4.1", "mpich>=5.0"),
    "tensorboard": ("tensorboard>=2.20",),
    "train": ("numpy>=2.1", "tokenizers>=0.21", "torch>=2.9,<2.14"),
    "tune": ("bitsandbytes>=0.50", "peft>=0.21", "transformers>=5.23"),
}
"""As in pyproject.toml, which nodes do not have."""
_BY_NAME = {re.split(r"[<>=]", line)[0]: line for lines in EXTRAS.values() for line in lines}


def install_extra(extra: str) -> str:
    """Return the command that installs what an extra consists of for this Python."""
    return _install(EXTRAS[extra])


def install_package(name: str) -> str:
    """Return the command that installs a package of an extra for this Python."""
    return _install((_BY_NAME[name],))


def is_in_an_extra(name: str) -> bool:
    """Return whether a package is known by this name, so that a command may install it."""
    return name in _BY_NAME


def _install(requirements: Sequence[str]) -> str:
    # Whoever can write to the folder in which people paste this could otherwise put a pip.py there.
    if sys.version_info < (3, 11):
        return shlex.join((sys.executable, "-I", "-m", "pip", "install", *requirements))
    return shlex.join((sys.executable, "-P", "-m", "pip", "install", *requirements))
