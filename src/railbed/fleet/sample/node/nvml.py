"""GPUs, through NVIDIA's management library if the driver has installed it."""

from __future__ import annotations

import ctypes
import time

LIBRARY = "libnvidia-ml.so.1"
SECONDS = 1.0
"""The driver averages over this long; reading more often costs time and shows nothing new."""
MEMORY_VERSION = 2 << 24
CLOCK_SM = 1


class Utilisation(ctypes.Structure):
    """nvmlUtilization_t"""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t"""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Gpu:
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

    def close(self) -> None:
        """Nothing to close."""

    def _all(self) -> dict[str, int | None]:
        utilisation = Utilisation()
        memory = Memory(version=ctypes.sizeof(Memory) | MEMORY_VERSION)
        call, handle = self._call, self._handle
        return {
            "busy": call("nvmlDeviceGetUtilizationRates", handle, utilisation, lambda: utilisation.gpu),
            "memory_used_bytes": call("nvmlDeviceGetMemoryInfo_v2", handle, memory, lambda: memory.used),
            "power": self._number("nvmlDeviceGetPowerUsage", handle),
            "temperature": self._number("nvmlDeviceGetTemperature", handle, ctypes.c_int(0)),
            "clock": self._number("nvmlDeviceGetClockInfo", handle, ctypes.c_int(CLOCK_SM)),
        }

    def _number(self, function: str, *arguments: object) -> int | None:
        value = ctypes.c_uint()
        return self._call(function, *arguments, value, lambda: value.value)

    def _call(self, function: str, *arguments) -> int | None:  # type: ignore[no-untyped-def]  # noqa: ANN002
        """Call a function whose last argument receives its result; return what `arguments[-1]` reads from it."""
        *inputs, result, read = arguments
        try:
            status = getattr(self._library, function)(*inputs, ctypes.byref(result))
        except AttributeError:  # an older driver
            return None
        return int(read()) if status == 0 else None


def gpus(library: str = LIBRARY) -> list[Gpu]:
    """Return the GPUs of this machine; none without NVIDIA's driver."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return []
    count = ctypes.c_uint()
    if loaded.nvmlInit_v2() != 0 or loaded.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return []
    return [gpu for gpu in (Gpu(loaded, index) for index in range(count.value)) if gpu.names]
