"""Chooses device, precision, threads and micro-batch for this machine, unless the recipe does.

Freed memory stays with a rank that trains on a CPU, since the same tensors come and go in every step. glibc hands large
blocks back to the system as soon as they are freed. The next step gets them again page by page: 8,000 page faults in a
step of `tiny`, 8 % of its processor time. The memory of a rank does not grow beyond its peak. Where torch has an
allocator of its own (builds for aarch64), this is without effect, and not needed.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from railbed.errors import RankFailed
from railbed.model.text import size
from railbed.train.capacity.estimate import GPU_MEMORY_USED, memory, micro_limit
from railbed.train.precision import VALUE_BYTES, Format, Precision, format_of_card
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec

TYPES: Mapping[Format, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INSTRUCTIONS: Mapping[torch.dtype, frozenset[str]] = {
    torch.bfloat16: frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    torch.float16: frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
}
"""Flags in /proc/cpuinfo of processors that compute in a format: those of x86, and of aarch64."""
CPUINFO = Path("/proc/cpuinfo")


def format_on(device: torch.device, wanted: Precision) -> Format:
    """Return the format to compute in on a device.

    A processor without instructions for 16 bits emulates them, a hundred times slower: it computes in fp32 instead.
    """
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return format_of_card(major + minor / 10) if wanted == "auto" else wanted
    return wanted if wanted != "auto" and processor_has(TYPES[wanted]) else "fp32"


def type_name(dtype: torch.dtype) -> str:
    """Return torch's name of a type, as it is in files."""
    return str(dtype).removeprefix("torch.")


def type_named(name: object) -> torch.dtype:
    """Return the type of that name; fp32 if it is none that ranks compute in."""
    return next((dtype for dtype in TYPES.values() if type_name(dtype) == name), torch.float32)


def processor_has(dtype: torch.dtype) -> bool:
    """Whether this machine's processor has instructions for a type."""
    return dtype == torch.float32 or bool(INSTRUCTIONS[dtype] & _flags())


@cache
def _flags() -> frozenset[str]:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, flags = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(flags.split())
    return frozenset()


PEAKS = (
    ("B200", 2250e12),
    ("GB200", 2250e12),
    ("H200", 989e12),
    ("GH200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("H20", 148e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("A40", 150e12),
    ("A30", 165e12),
    ("A10", 125e12),
    ("RTX A6000", 155e12),
    ("RTX 6000 Ada", 364e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("RTX 5090", 209e12),
    ("RTX 4090", 165e12),
    ("RTX 4080", 97e12),
    ("RTX 3090", 71e12),
    ("RTX 3080", 59e12),
    ("V100", 125e12),
    ("T4", 65e12),
)
"""Dense bf16 (before Ampere: fp16) operations per second with fp32 sums, from the vendors' data sheets."""

PROBE_SIZES = (96, 192, 384, 768)
"""Rows and columns of the matrices that measure a processor: the last is large enough for its full speed."""
PROBE_SECONDS, LONGEST_PROBE_SECONDS = 0.1, 1.0
CLEAR_SECONDS = 0.01
"""CPU time that is measured with any clock; some advance in steps of four milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The device, precision, threads and batch that a rank computes with."""

    device: str
    device_name: str
    precision: Format
    compile: bool
    threads: int
    micro_limit: int
    """Maximum number of sequences in memory at once."""
    padded: bool
    fused: bool
    peak_flops: float
    """Operations per second that MFU refers to; 0 if this GPU is not in the table."""
    peak_source: str
    torch_version: str

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of the computation."""
        return TYPES[self.precision]


def device_of(job: TrainSpec) -> torch.device:
    """Return the rank's device; raise RankFailed if it does not exist.

    If there are more ranks than GPUs, they share them; whether the gradients can be summed then depends on the
    transport.
    """
    name = job.device
    if name == "auto":
        name = f"cuda:{job.local_rank % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        if (device.index or 0) >= torch.cuda.device_count():
            raise RankFailed(f"there is no GPU {name}: torch {torch.__version__} has {torch.cuda.device_count()}")
        torch.cuda.set_device(device)
    return device


def choose(job: TrainSpec, settings: Recipe, device: torch.device) -> Chosen:
    """Choose for this hardware, and configure the process for it."""
    gpu = device.type == "cuda"
    threads = _threads(job, settings)
    torch.set_num_threads(threads)
    precision = format_on(device, settings.precision)
    if gpu:
        torch.set_float32_matmul_precision("high")
    peak, source = _peak(device)
    return Chosen(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if gpu else _processor(),
        precision=precision,
        compile=gpu and settings.model.compiles if settings.compile == "auto" else settings.compile,
        threads=threads,
        micro_limit=_micro_limit(settings, device, precision, job.world),
        padded=settings.model.is_padded(gpu=gpu),
        fused=True,
        peak_flops=peak,
        peak_source=source,
        torch_version=torch.__version__,
    )


def _threads(job: TrainSpec, settings: Recipe) -> int:
    if job.threads:
        return job.threads
    if settings.threads != "auto":
        return settings.threads
    return max(1, len(os.sched_getaffinity(0)) // max(1, job.local_world))


def _micro_limit(settings: Recipe, device: torch.device, precision: Format, world: int) -> int:
    total = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None
    value_bytes = VALUE_BYTES[precision]
    limit = micro_limit(settings, world=world, value_bytes=value_bytes, gpu_bytes=total)
    if total and not limit:
        needed = memory(settings, micro=1, world=world, value_bytes=value_bytes, gpu=True).total
        usable = total * GPU_MEMORY_USED
        raise RankFailed(f"the model does not fit: it needs {size(needed)}, and {size(usable)} are usable")
    return limit


def _peak(device: torch.device) -> tuple[float, str]:
    if device.type != "cuda":
        return measured_peak(), "measured here: fp32 matrix product, the rank's threads"
    name = torch.cuda.get_device_name(device)
    for part, peak in PEAKS:
        if part in name:
            return peak, f"data sheet of {part}, dense 16-bit"
    return 0.0, f"{name} is not in the table"


def measured_peak() -> float:
    """Return the fp32 operations per second of a matrix product with the threads that are set.

    A processor for which the next larger product would take too long, such as an emulated one, is measured without it.
    """
    peak, end = 0.0, time.perf_counter() + PROBE_SECONDS
    for rows in PROBE_SIZES:
        operations = 2.0 * rows**3
        left = end - time.perf_counter()
        if peak and operations / peak > left:
            break
        peak = operations / _seconds_of_product(rows, left if rows == PROBE_SIZES[-1] else 0.0)
    return peak


def _seconds_of_product(rows: int, limit: float) -> float:
    """Return how long a thread computes a product of square matrices, on average over at least `limit` seconds."""
    left, right = torch.ones(rows, rows), torch.ones(rows, rows)
    begin, start, products, used, elapsed = time.perf_counter(), time.process_time(), 0, 0.0, 0.0
    while (elapsed < limit or used < CLEAR_SECONDS) and elapsed < LONGEST_PROBE_SECONDS:
        torch.mm(left, right)
        products += 1
        # CPU time rather than elapsed time, so that other programs on a busy machine do not lower the peak.
        used = time.process_time() - start
        elapsed = time.perf_counter() - begin
    return (used / torch.get_num_threads() or elapsed) / products


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123 -- not a file on disk
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else os.uname().machine


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
NEVER, NO_BLOCKS = -1, 0


def keep_freed_memory() -> bool:
    """Keep it from now on; return whether the C library can (glibc can, musl cannot)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, NO_BLOCKS) and mallopt(M_TRIM_THRESHOLD, NEVER))
