"""Many packets as blocks of a pcapng file at once: one copy for all packets of the same length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railbed.capture.export.merge import Batch
from railbed.capture.files.formats.blocks import ENHANCED_PACKET
from railbed.capture.files.window import Window

HEADER, TRAILER = 28, 4
Bytes = NDArray[np.uint8]
Options = tuple[NDArray[np.intp], bytes]
"""Places in the order of packets, and the options that all of them have."""


def render(
    windows: Sequence[Window],
    batches: Sequence[Batch],
    interfaces: Sequence[NDArray[np.int64]],
    order: NDArray[np.intp],
    options: Sequence[Options],
) -> Bytes:
    """Return packets of several files as blocks, in an order over all of them."""
    captured = np.concatenate([batch.captured for batch in batches])[order]
    padded = captured + (-captured & 3)
    size = HEADER + padded + TRAILER
    for places, data in options:
        size[places] += len(data)
    stop = np.cumsum(size)
    start = stop - size
    content = np.zeros(int(stop[-1]) if len(stop) else 0, np.uint8)
    time = np.maximum(np.concatenate([batch.time for batch in batches])[order], 0)
    length = np.concatenate([batch.length for batch in batches])[order]
    words = content.view("<u4")
    values = (ENHANCED_PACKET, size, np.concatenate(interfaces)[order], time >> 32, time & 0xFFFFFFFF, captured, length)
    for number, value in enumerate(values):
        words[start // 4 + number] = value
    words[stop // 4 - 1] = size
    _copy_packets(content, start + HEADER, windows, batches, order)
    for pad in range(1, 4):
        content[(start + HEADER + padded - pad)[padded - captured >= pad]] = 0
    for places, data in options:
        _at(content, len(data))[(start + HEADER + padded)[places]] = np.frombuffer(data, f"V{len(data)}")
    return content


def _copy_packets(
    content: Bytes,
    targets: NDArray[np.int64],
    windows: Sequence[Window],
    batches: Sequence[Batch],
    order: NDArray[np.intp],
) -> None:
    """Copy the bytes of packets, and up to three that follow them, from the windows of their files."""
    target = np.empty(len(order), np.int64)
    target[order] = targets
    first = 0
    for window, batch in zip(windows, batches, strict=True):
        own = target[first : first + len(batch)]
        first += len(batch)
        widths = batch.captured + (-batch.captured & 3)
        for width in np.unique(widths[widths > 0]).tolist():
            rows = np.flatnonzero(widths == width)
            _at(content, width)[own[rows]] = window.buffer.view(f"V{width}")[batch.start[rows]]


def _at(content: Bytes, width: int) -> NDArray[np.void]:
    """Return the so many bytes that begin at each byte, to be written to."""
    return np.ndarray((len(content) - width + 1,), f"V{width}", content.data, 0, (1,))
