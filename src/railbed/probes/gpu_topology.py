"""How GPUs and network cards are connected: PCIe bridge, host bridge, socket, NVLink (`nvidia-smi topo -m`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

EXPLAINED = re.compile(r"(?:NIC )?Legend:|\s+\S+ += [A-Z]")
DEVICE = re.compile(r"(?:GPU|NIC)\d+|[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
GPU = re.compile(r"GPU\d+", re.ASCII)
RELATION = re.compile(r"[A-Z][A-Z0-9/]{0,7}", re.ASCII)
LEGEND = re.compile(r"\s*(?P<alias>NIC\d+): (?P<name>\S+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTopology(TextFacts):
    """The matrix of relations, and which processors are near each GPU."""

    relations: dict[str, dict[str, str]]
    """`relations["GPU0"]["mlx5_0"]`: PIX, PXB, PHB, NODE, SYS or NV# (# NVLinks), from near to far; X is itself."""
    cpu_affinity: dict[str, str]
    """Processors near each GPU, as a list of ranges."""
    numa_affinity: dict[str, str]
    """NUMA node of each GPU; empty with old drivers, which do not report it."""

    def gpus_of(self, nic: str) -> dict[str, str]:
        """Return the relation of a network card to every GPU."""
        return {name: row[nic] for name, row in self.relations.items() if GPU.fullmatch(name) and nic in row}


def parse(text: str) -> GpuTopology:
    """Read the matrix; cards have their kernel names, even if the driver lists them as NIC0, NIC1, …"""
    lines = Lines(text)
    heading, rows, names = "", list[list[str]](), dict[str, str]()
    for line in lines:
        words = line.split()
        if not heading and words[0] == "GPU0":
            heading = line
        elif match := LEGEND.fullmatch(line):
            names[match["alias"]] = match["name"]
        elif heading and words[0] in heading.split() and len(words) > 1:
            rows.append(words)
        elif not EXPLAINED.match(line):
            lines.unknown(line)
    lines.require(heading, "no matrix that begins with GPU0")
    devices, columns = _heading(heading)
    near = {row[0]: row[1 + len(devices) :] for row in rows if row and GPU.fullmatch(row[0])}
    return GpuTopology(
        relations={names.get(name, name): _relations(row, devices, names) for name, row in _match(devices, rows)},
        cpu_affinity=_column(near, columns, "CPU Affinity"),
        numa_affinity=_column(near, columns, "NUMA Affinity"),
        not_understood=lines.not_understood,
    )


def _heading(line: str) -> tuple[list[str], list[str]]:
    """Split the first line into the devices of the matrix and the columns that follow them."""
    matrix, cpu, rest = line.partition("CPU Affinity")
    devices = matrix.split()
    for name in devices:
        if not DEVICE.fullmatch(name):
            raise ParseError("expected a device", line=name)
    numa = ["NUMA Affinity"] if "NUMA Affinity" in rest else []
    return devices, ["CPU Affinity", *numa] if cpu else []


def _match(devices: list[str], rows: list[list[str]]) -> list[tuple[str, list[str]]]:
    if [row[0] if row else "" for row in rows] != devices:
        raise ParseError("rows and columns of the matrix differ", line=" ".join(devices))
    return list(zip(devices, rows, strict=True))


def _relations(row: list[str], devices: list[str], names: dict[str, str]) -> dict[str, str]:
    cells = row[1 : 1 + len(devices)]
    if len(cells) != len(devices) or not all(RELATION.fullmatch(cell) for cell in cells):
        raise ParseError("expected one relation for each device", line=" ".join(row))
    return {names.get(device, device): cell for device, cell in zip(devices, cells, strict=True)}


def _column(near: dict[str, list[str]], columns: list[str], name: str) -> dict[str, str]:
    if name not in columns:
        return {}
    at = columns.index(name)
    return {gpu: cells[at] for gpu, cells in near.items() if at < len(cells) and cells[at] != "N/A"}


PROBE = Probe(
    name="gpu_topology",
    title="PCIe and NVLink relations of GPUs and network cards",
    command="nvidia-smi topo -m",
    parse=parse,
    facts=GpuTopology,
    tool="nvidia-smi",
    package="nvidia-smi",
    timeout=10.0,
)
