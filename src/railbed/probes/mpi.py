"""MPI of the training Python: mpi4py, the library that it loads, and the RDMA devices that UCX finds through it.

The library is loaded, but MPI is not started. UCX opens the devices to list what it can use, as `ucx_info -d` does; the
packages that bring MPI from a package index have no such program.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.text import ONLY_INSTALLED, Fields, json_value, python_words, quote_path

SECONDS = 30.0
SCRIPT = f"""
{ONLY_INSTALLED}
import os
os.environ["UCX_LOG_LEVEL"] = "fatal"  # it prints its complaints among the facts
facts = {{"mpi4py": None}}

def look():
    import ctypes, re
    import mpi4py
    facts["mpi4py"] = mpi4py.__version__
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI
    facts["library"] = MPI.Get_library_version().split("\\n")[0].split(",")[0]
    with open("/proc/self/maps") as maps:
        path = re.search(r"/\\S*/libucp\\.so\\S*", maps.read())
    if path:
        ask_ucx(ctypes, re, ctypes.CDLL(path.group()))

def ask_ucx(ctypes, re, ucp):
    major, minor, patch = (ctypes.c_uint() for _ in range(3))
    ucp.ucp_get_version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(patch))
    facts["ucx"] = "%d.%d.%d" % (major.value, minor.value, patch.value)
    parameters = (ctypes.c_uint64 * 64)(1, 1)  # the field `features`, which is: messages with tags
    context, libc = ctypes.c_void_p(), ctypes.CDLL(None)
    status = ucp.ucp_init_version(major.value, minor.value, parameters, None, ctypes.byref(context))
    if status:
        facts["problem"] = "UCX does not start: status %d" % status
        return
    memory = os.memfd_create("ucx")
    libc.fdopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fdopen(memory, b"w"))
    ucp.ucp_context_print_info(context, stream)
    libc.fflush(stream)
    text = os.pread(memory, 1 << 20, 0).decode("ascii", "replace")
    facts["devices"] = sorted(set(re.findall(r" -- (?!tcp/)\\w+/([\\w.-]+:\\d+)$", text, re.M)))

try:
    look()
except ImportError as error:
    if facts["mpi4py"]:
        facts["problem"] = str(error).split("\\n")[0]
except Exception as error:
    facts["problem"] = "%s: %s" % (type(error).__name__, str(error).split("\\n")[0])
import json
print(json.dumps(facts), flush=True)
os._exit(0)  # neither library was started, and neither may end in its own way
"""
DEVICE = re.compile(r"[\w.-]{1,64}:\d{1,3}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """The MPI that ranks would use."""

    mpi4py: str | None
    """Version of mpi4py; None if the training Python does not have it."""
    library: str | None = None
    """The library's name and version, as it reports them (`MPICH Version: 5.0.2`); None if none was loaded."""
    ucx: str | None = None
    """Version of the UCX that it loads; None if it loads none."""
    devices: tuple[str, ...] | None = None
    """RDMA devices that UCX can use, with their ports (`mlx5_0:1`); None if UCX was not asked."""
    problem: str | None = None
    """Why the library was not loaded, or UCX did not start."""


def command(cluster: Cluster, node: str) -> str:
    """Return the command for a node's training Python; a missing Python has no MPI, either."""
    words = cluster.interpreter_of(node)
    return f"""
if command -v {quote_path(words[0])} >/dev/null 2>&1; then exec {python_words(words)} -c {shlex.quote(SCRIPT)}; fi
echo '{{"mpi4py": null}}'
"""


def parse(text: str) -> Mpi:
    """Read the script's JSON, the last line: libraries may print before it."""
    fields = Fields(json_value(text.strip().rpartition("\n")[2]))
    if "mpi4py" not in fields:
        raise ParseError("no field 'mpi4py'", line=text.strip()[:80])
    devices = fields.texts("devices") if "devices" in fields else None
    for name in devices or ():
        if not DEVICE.fullmatch(name):
            raise ParseError("expected an RDMA device and its port", line=name)
    return Mpi(
        mpi4py=fields.optional_text("mpi4py"),
        library=fields.optional_text("library"),
        ucx=fields.optional_text("ucx"),
        devices=None if devices is None else tuple(devices),
        problem=fields.optional_text("problem"),
    )


PROBE = Probe(
    name="mpi",
    title="MPI of the training Python, and the RDMA devices that its UCX can use",
    command=command,
    parse=parse,
    facts=Mpi,
    timeout=SECONDS,
    one_line=True,
)
