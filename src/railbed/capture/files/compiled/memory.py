"""Read and write memory at an address, from functions that numba compiles.

Handing arrays to small functions makes numba count references for every packet, which takes most of the time. Addresses
are plain numbers. Whoever computes one vouches for it: a window has a margin behind it for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Address = int


def _reader(bits: int, *, swapped: bool = False) -> Callable[[Address], int]:
    """Return a function that reads an unsigned number, which need not be aligned."""

    def read(_: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(_: Any, builder: ir.IRBuilder, __: Any, arguments: Any) -> Any:  # noqa: ANN401
            kind = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            value = builder.bswap(value) if swapped else value
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return cast("Callable[[Address], int]", intrinsic(read))


def _writer(bits: int) -> Callable[[Address, int], None]:
    """Return a function that writes the lower bits of a number."""

    def write(_: Any, address: Any, value: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: ir.IRBuilder, __: Any, arguments: Any) -> Any:  # noqa: ANN401
            kind = ir.IntType(bits)
            value = arguments[1] if bits == 64 else builder.trunc(arguments[1], kind)
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return cast("Callable[[Address, int], None]", intrinsic(write))


read1, little4, read8 = _reader(8), _reader(32), _reader(64)
big2, big4, big8 = _reader(16, swapped=True), _reader(32, swapped=True), _reader(64, swapped=True)
write1, write2, write4, write8 = _writer(8), _writer(16), _writer(32), _writer(64)
