"""MPI: gradients over UCX, which uses RDMA if the nodes have it; ranks join and DDP is set up over gloo.

One thread makes all MPI calls, one after another, in the order in which they were requested. They block without holding
Python's lock: backward continues while a bucket is summed. MPI's asynchronous calls make no progress on their own
in most libraries.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from railbed.collective import mpilibrary, pmi
from railbed.errors import RankFailed

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
        os.environ.update(mpilibrary.settings(interface, world.machines) | variables)
        self._module = mpilibrary.load()
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
                mpilibrary.forget_shared_memory()
            done()
        self._attempt(lambda: mpilibrary.linger(world, self._all_are_done.is_set))

    def _start(self) -> Any:  # noqa: ANN401 -- mpi4py may not be there to name it
        mpilibrary.begin(self._module)
        world = self._module.COMM_WORLD.Dup()
        mpilibrary.forget_shared_memory()
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
