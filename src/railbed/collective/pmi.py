"""Makes ranks one MPI world without mpiexec: serves the requests that an MPI library sends to its launcher.

MPICH uses the PMI-1 protocol, lines of `cmd=name key=value …` on a socket whose number is in PMI_FD: it publishes its
address, looks up those of the others, and waits for them. The values are in the store that the ranks share already, so
there is no further server, port or program.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from torch._C._distributed_c10d import PrefixStore, Store

KEY_BYTES, VALUE_BYTES = 64, 1024
"""MPICH splits longer values itself."""
LINE_BYTES = 64 * 1024
MAPPING = "PMI_process_mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One MPI world: the store, and which ranks share a machine."""

    store: Store
    name: str
    """Never used twice on a machine: MPICH names its shared memory after it."""
    rank: int
    machines: Sequence[int]
    """For each rank the number of its machine; ranks of one machine are adjacent."""
    seconds: float
    """How long a rank waits for the others."""

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return len(self.machines)

    @property
    def keys(self) -> Store:
        """Return the store of this world alone."""
        return PrefixStore(self.name, self.store)


class Responder:
    """Answers one process. Unknown keys are reported as not found: MPICH can do without them."""

    def __init__(self, world: World, connection: socket.socket) -> None:
        self._world = world
        self._keys = world.keys
        self._connection = connection
        self._barriers = 0
        self._answers: dict[str, Callable[[dict[str, str]], str]] = {
            "init": lambda _: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": lambda _: f"cmd=maxes kvsname_max=64 keylen_max={KEY_BYTES} vallen_max={VALUE_BYTES} rc=0",
            "get_appnum": lambda _: "cmd=appnum appnum=0 rc=0",
            "get_universe_size": lambda _: f"cmd=universe_size size={world.size} rc=0",
            "get_my_kvsname": lambda _: f"cmd=my_kvsname kvsname={world.name} rc=0",
            "put": self._put,
            "get": self._get,
            "barrier_in": self._barrier,
            "finalize": lambda _: "cmd=finalize_ack rc=0",
        }

    def serve(self) -> None:
        """Answer until the process closes the connection."""
        over = contextlib.suppress(
            OSError, KeyError, RuntimeError
        )  # the process or the store is gone, or its request is malformed
        with self._connection, over, self._connection.makefile("rwb") as lines:
            while line := lines.readline(LINE_BYTES):
                request = dict(word.partition("=")[::2] for word in line.decode(errors="replace").split())
                answer = self._answers.get(request.get("cmd", ""))
                if answer is None:
                    return
                lines.write(answer(request).encode() + b"\n")
                lines.flush()

    def _put(self, request: dict[str, str]) -> str:
        self._keys.set(f"key/{request['key']}", request["value"])
        return "cmd=put_result rc=0"

    def _get(self, request: dict[str, str]) -> str:
        if request["key"] == MAPPING:
            return f"cmd=get_result rc=0 value={mapping(self._world.machines)}"
        name = f"key/{request['key']}"
        if not self._keys.check([name]):
            return "cmd=get_result rc=-1 msg=key_not_found"
        return f"cmd=get_result rc=0 value={self._keys.get(name).decode()}"

    def _barrier(self, _: dict[str, str]) -> str:
        self._barriers += 1
        arrived, complete = f"barrier/{self._barriers}", f"barrier/{self._barriers}/complete"
        if self._keys.add(arrived, 1) == self._world.size:
            self._keys.set(complete, "yes")
        try:
            self._keys.wait([complete], timedelta(seconds=self._world.seconds))
        except RuntimeError:
            return "cmd=barrier_out rc=-1 msg=time_out"
        return "cmd=barrier_out rc=0"


def mapping(machines: Sequence[int]) -> str:
    """Return which machine each rank is on, in MPICH's notation: (first machine, machines, ranks on each) per block."""
    counts = [len(list(ranks)) for _, ranks in groupby(machines)]
    blocks = ",".join(f"({number},1,{count})" for number, count in enumerate(counts))
    return f"(vector,{blocks})"


def serve(world: World) -> tuple[socket.socket, dict[str, str]]:
    """Answer in a separate thread; return the process's end of the socket, and the environment that it needs.

    The environment names the socket by its number, so a new process must inherit it under that number.
    """
    ours, theirs = socket.socketpair()
    name = f"pmi-{world.name}"
    threading.Thread(target=Responder(world, ours).serve, name=name, daemon=True).start()
    variables = {"PMI_FD": str(theirs.fileno()), "PMI_RANK": str(world.rank), "PMI_SIZE": str(world.size)}
    return theirs, variables
