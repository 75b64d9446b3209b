"""MPI: gradients over UCX, which uses RDMA if the nodes have it; ranks join and DDP is set up over gloo.

One thread makes all MPI calls, one after another, in the order in which they were requested. They block without holding
Python's lock: backward continues while a bucket is summed. MPI's asynchronous calls make no progress on their own
in most libraries.

The library is started without blocking the thread that it waits for. mpi4py holds Python's lock while MPI starts, and
the thread that answers MPI's requests meanwhile (`pmi`) would never run. So this one call bypasses mpi4py.

MPI_Finalize is not called. In it UCX closes each connection once its own messages have arrived; a rank that is a little
later waits for an answer from the closed end until its card gives up: half a minute, observed between slow
machines. Ranks stay until all are done (`linger`), and then their processes end.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from railbed.collective import pmi
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


START_SECONDS = 60.0
Work = Callable[[Any], None]


class MpiGroup:
    """All ranks of a job as one MPI world. A lost rank blocks it for good: the supervisor then ends the others."""

    name = "mpi"

    def __init__(self, world: pmi.World, interface: str) -> None:
        self.rank = world.rank
        self.world = world.size
        self._failure = ""
        self._all_are_done = threading.Event()
        self._seconds = world.seconds
        self._work: queue.SimpleQueue[tuple[Work, Callable[[], None]] | None] = queue.SimpleQueue()
        self._socket, variables = pmi.serve(world)
        os.environ.update(settings(interface, world.machines) | variables)
        self._module = load()
        self._kinds: dict[torch.dtype, tuple[Any, Any]] = {}
        self._thread = threading.Thread(target=self._serve, name="mpi", daemon=True)
        self._thread.start()
        self.run(lambda _: None, "the start of MPI", START_SECONDS)

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Start summing a bucket in place."""
        self._fail_if_failed()
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._work.put((lambda world: self._sum(world, tensor), lambda: future.set_result(tensor)))
        return future

    def sum(self, tensor: torch.Tensor) -> None:
        """Sum a tensor."""
        self.run(lambda world: self._sum(world, tensor), "the sum of a tensor")

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Take the source's tensor."""
        self.run(lambda world: world.Bcast(self._memory(tensor), root=source), "the broadcast of a tensor")

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Gather the parts of all ranks."""
        self.run(lambda world: world.Allgather(self._memory(part), self._memory(full)), "an all-gather")

    def reduce_scatter(self, part: torch.Tensor, full: torch.Tensor) -> None:
        """Take this rank's part of the sum."""

        def work(world: Any) -> None:  # noqa: ANN401
            kind, operation = self._kinds[full.dtype]
            parts = [self._memory(full)[0], part.numel(), kind], [self._memory(part)[0], part.numel(), kind]
            world.Reduce_scatter_block(*parts, op=operation)

        self.run(work, "a reduce-scatter")

    def all_to_all(self, received: torch.Tensor, sent: torch.Tensor) -> None:
        """Exchange parts with every rank."""
        self.run(lambda world: world.Alltoall(self._memory(sent), self._memory(received)), "an all-to-all")

    def wire_bytes(self, size: int) -> int:
        """Return the bytes that MPICH sends for large tensors: as many as a ring."""
        return 2 * (self.world - 1) * size // self.world

    def close(self) -> None:
        """Leave the group together with the others: otherwise rank 0 would close the store that others still need."""
        self._work.put(None)
        with contextlib.suppress(RuntimeError):
            dist.barrier()
        self._all_are_done.set()
        self._thread.join(self._seconds)
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()

    def run(self, work: Work, what: str, seconds: float = 0.0) -> None:
        """Let the thread do some work and wait for it; a failure of this or of earlier work is raised."""
        done = threading.Event()
        self._work.put((work, done.set))
        if not done.wait(seconds or self._seconds):
            raise RankFailed(f"mpi: {what} did not end within {seconds or self._seconds:g} s", peer=True)
        self._fail_if_failed()

    def _fail_if_failed(self) -> None:
        if self._failure:
            raise RankFailed(f"mpi: {self._failure}", peer=True)

    def _serve(self) -> None:
        """Make all MPI calls. After a failure every waiting call ends at once, and later ones are refused."""
        world = self._attempt(self._start)
        calls = 0
        while (item := self._work.get()) is not None:
            work, done = item
            self._attempt(work, world)
            calls += 1
            if calls.bit_count() == 1:  # MPICH maps more shared memory in the first calls, and sometimes later
                forget_shared_memory()
            done()
        self._attempt(lambda: linger(world, self._all_are_done.is_set))

    def _start(self) -> Any:  # noqa: ANN401 -- mpi4py may not be there to name it
        begin(self._module)
        world = self._module.COMM_WORLD.Dup()
        forget_shared_memory()
        self._kinds = _kinds(self._module)
        return world

    def _attempt(self, work: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Do some work, unless earlier work failed."""
        try:
            return None if self._failure else work(*arguments)
        except Exception as error:
            self._failure = (str(error).strip() or type(error).__name__).splitlines()[0][:300]

    def _sum(self, world: Any, tensor: torch.Tensor) -> None:  # noqa: ANN401 -- mpi4py may not be there to name it
        memory, _ = self._memory(tensor)
        kind, operation = self._kinds[tensor.dtype]
        world.Allreduce(self._module.IN_PLACE, [memory, tensor.numel(), kind], op=operation)

    def _memory(self, tensor: torch.Tensor) -> list[Any]:
        """Return a tensor's memory in the form that MPI accepts."""
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise RankFailed("mpi only moves contiguous tensors in the processor's memory")
        size = tensor.numel() * tensor.element_size()
        return [self._module.buffer.fromaddress(tensor.data_ptr(), size), self._module.BYTE]


def _kinds(module: ModuleType) -> dict[torch.dtype, tuple[Any, Any]]:
    """Return how MPI adds each type of number. It has no bfloat16: torch adds those."""
    kinds = {
        torch.float32: module.FLOAT,
        torch.float64: module.DOUBLE,
        torch.int32: module.INT32_T,
        torch.int64: module.INT64_T,
    }
    own = (module.UINT16_T, module.Op.Create(_add_bfloat16, commute=True))
    return {torch.bfloat16: own, **{dtype: (kind, module.SUM) for dtype, kind in kinds.items()}}


def _add_bfloat16(addend: Any, total: Any, _: Any) -> None:  # noqa: ANN401 -- memory that MPI lends
    torch.frombuffer(total, dtype=torch.bfloat16).add_(torch.frombuffer(addend, dtype=torch.bfloat16))
