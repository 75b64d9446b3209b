"""GPUs, through NVIDIA's management library if the driver has installed it."""

from __future__ import annotations

import ctypes
import time

from railbed.fleet.sample.node.group import CounterGroup

LIBRARY = "libnvidia-ml.so.1"
SECONDS = 1.0
"""The driver averages over this long; reading more often costs time and shows nothing new."""
MEMORY_VERSION = 2 << 24
CORE_SENSOR, CLOCK_SM = 0, 1


class Utilisation(ctypes.Structure):
    """nvmlUtilization_t"""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NvmlMemory(ctypes.Structure):
    """nvmlMemory_v2_t"""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class GpuReader(CounterGroup):
    """What a GPU reports about itself; what it does not support is left out."""

    source = "gpu"

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        self.port = str(index)
        self._library = library
        self._handle = ctypes.c_void_p()
        self._due = 0.0
        self._values: list[int | None] = []
        status = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._handle))
        everything = self._all() if status == 0 else {}
        self.names = [name for name, value in everything.items() if value is not None]

    def read(self) -> list[int | None]:
        """Return the values, those of the last second if it is not over."""
        if time.monotonic() >= self._due:
            everything = self._all()
            self._values = [everything[name] for name in self.names]
            self._due = time.monotonic() + SECONDS * 0.9
        return self._values

    def _all(self) -> dict[str, int | None]:
        utilisation = Utilisation()
        memory = NvmlMemory(version=ctypes.sizeof(NvmlMemory) | MEMORY_VERSION)
        return {
            "busy": utilisation.gpu if self._fill(utilisation, "nvmlDeviceGetUtilizationRates") else None,
            "memory_used_bytes": memory.used if self._fill(memory, "nvmlDeviceGetMemoryInfo_v2") else None,
            "power": self._number("nvmlDeviceGetPowerUsage"),
            "temperature": self._number("nvmlDeviceGetTemperature", CORE_SENSOR),
            "clock": self._number("nvmlDeviceGetClockInfo", CLOCK_SM),
        }

    def _number(self, function: str, *selection: int) -> int | None:
        value = ctypes.c_uint()
        return value.value if self._fill(value, function, *selection) else None

    def _fill(self, result: ctypes.Structure | ctypes.c_uint, function: str, *selection: int) -> bool:
        """Call a function that stores its result; return whether the GPU and its driver support it."""
        try:
            call = getattr(self._library, function)
        except AttributeError:  # an older driver
            return False
        return bool(call(self._handle, *map(ctypes.c_int, selection), ctypes.byref(result)) == 0)


def gpus(library: str = LIBRARY) -> list[GpuReader]:
    """Return the GPUs of this machine; none without NVIDIA's driver."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return []
    count = ctypes.c_uint()
    if loaded.nvmlInit_v2() != 0 or loaded.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return []
    return [gpu for gpu in (GpuReader(loaded, index) for index in range(count.value)) if gpu.names]
