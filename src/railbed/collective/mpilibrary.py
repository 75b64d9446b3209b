"""The MPI library in this process: started without blocking the thread that it waits for, and never finalised.

mpi4py holds Python's lock while MPI starts, and the thread that answers MPI's requests meanwhile (`pmi`) would never
run. So this one call bypasses mpi4py.

MPI_Finalize is not called. In it UCX closes each connection once its own messages have arrived; a rank that is a little
later waits for an answer from the closed end until its card gives up: half a minute, observed between slow
machines. Ranks stay until all are done (`linger`), and then their processes end.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from railbed.errors import RankFailed
from railbed.model.requirements import install_extra

SERIALIZED = 2
"""MPI's thread level for calls from one thread at a time: the numbers of MPICH and of the standard's ABI."""
DEVICES = "UCX_NET_DEVICES"
MPICH = {
    "MPIR_CVAR_CH4_NETMOD": "ucx",
    # MPI polls while it waits. Computing needs the processor more: after some idle polls each further one yields it.
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "64",
}
SHARED_MEMORY = "/dev/shm/mpich_"  # noqa: S108 -- where the kernel has it
LINGER_SECONDS = 0.005
INSTALL = f"`{install_extra('mpi')}` installs both"


def missing() -> str:
    """Return what MPI lacks on this node; empty if nothing is missing."""
    if importlib.util.find_spec("mpi4py") is None:
        return f"mpi4py is not installed for its Python; {INSTALL}"
    try:
        is_installed = importlib.util.find_spec("mpi4py.MPI") is not None or _is_abi_aware()
    except (ImportError, RuntimeError, OSError):  # the wheels search for the library when loaded
        is_installed = False
    return "" if is_installed else f"mpi4py is installed, but no MPI library; {INSTALL}"


def _is_abi_aware() -> bool:
    """Return whether this mpi4py finds its library when it is loaded, as the published wheels do."""
    return importlib.util.find_spec("mpi4py._mpiabi") is not None


def settings(interface: str, machines: Sequence[int]) -> dict[str, str]:
    """Return the environment that MPICH needs; without an RDMA device, it uses TCP between machines.

    `machines` has the machine of each rank. UCX could use memory that the "machines" of a lab of namespaces share, and
    it cannot reach ranks of the same machine by TCP: so it gets exactly the transports that are needed.
    """
    chosen = dict(MPICH)
    if os.environ.get(DEVICES):
        return chosen
    several, shared = len(set(machines)) > 1, len(set(machines)) < len(machines)
    ways = [*(["tcp"] if several else []), *(["sm"] if shared else []), "self"]
    return chosen | {"UCX_TLS": ",".join(ways)} | ({DEVICES: interface} if several else {})


def load() -> ModuleType:
    """Return `mpi4py.MPI`, not started."""
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError, OSError) as error:
        raise RankFailed(f"MPI cannot be loaded: {_first_line(error)}", hint=INSTALL) from None
    return MPI


def begin(module: ModuleType) -> None:
    """Start MPI. If it cannot start, MPICH prints the reason and ends the process."""
    level = ctypes.c_int()
    ctypes.CDLL(module.__file__).MPI_Init_thread(None, None, SERIALIZED, ctypes.byref(level))
    if level.value < SERIALIZED:
        raise RankFailed("this MPI library does not support calls from a separate thread")


def forget_shared_memory() -> None:
    """Remove the names of MPICH's shared memory once all ranks here have mapped it; it is freed with the last one."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith(SHARED_MEMORY):
            Path(path).unlink(missing_ok=True)


def linger(world: Any, is_over: Callable[[], bool]) -> None:  # noqa: ANN401 -- mpi4py may not be there to name it
    """Keep MPI progressing until every rank is done, since others may still need this rank; leave nothing behind."""
    forget_shared_memory()
    while not is_over():
        world.Iprobe()
        time.sleep(LINGER_SECONDS)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
