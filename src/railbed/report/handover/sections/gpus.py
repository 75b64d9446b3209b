"""The GPUs: memory, temperature, power, ECC, driver."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model import events
from railbed.present.wording import JOIN, NOT_KNOWN
from railbed.report.blocks import Block, Cell, MarkCell, TableBlock, TextBlock, Value, byte_count
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData

COLUMNS = ("node", "GPU", "model", "memory", "temperature", "power", "limit", "ECC", "uncorrected", "driver", "CUDA")
NUMBERS = ("memory", "temperature", "power", "limit", "uncorrected")


def show(data: HandoverData) -> Sequence[Block] | None:
    """Show a row for each GPU; nothing if neither the file nor the machines have any."""
    gpus = data.of(events.GpuListed)
    if not gpus:
        return None
    note = "Temperature and power are those of the moment when the machine was read."
    return [TableBlock(COLUMNS, [_row(gpu) for gpu in gpus], numbers=NUMBERS), TextBlock(note)]


def _row(gpu: events.GpuListed) -> tuple[Cell, ...]:
    node, _, name = gpu.subject.partition("/")
    errors = gpu.uncorrected_errors
    return (
        node,
        name.removeprefix("gpu"),
        gpu.model,
        byte_count(gpu.memory_bytes) if gpu.memory_bytes is not None else NOT_KNOWN,
        _round(gpu.temperature_celsius, "°C"),
        _round(gpu.power_watts, "W"),
        _round(gpu.power_limit_watts, "W"),
        {True: "on", False: "off", None: "none" if gpu.driver else NOT_KNOWN}[gpu.ecc],
        NOT_KNOWN if errors is None else MarkCell(str(errors), "bad") if errors else "0",
        gpu.driver or NOT_KNOWN,
        gpu.cuda or NOT_KNOWN,
    )


def _round(value: float | None, unit: str) -> Cell:
    return Value(value, unit, f"{value:.0f}{JOIN}{unit}") if value is not None else NOT_KNOWN


SECTION = Section(name="gpus", title="GPUs", order=50, show=show)
