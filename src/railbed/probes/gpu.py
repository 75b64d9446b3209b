"""NVIDIA GPUs: model, memory, driver, compute capability, ECC, temperature, power (`nvidia-smi`, the PCI bus in sysfs).

nvidia-smi queries the driver through NVML, so that library is not read separately. The PCI bus is read as well:
a machine without a GPU and a GPU without a driver are different facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import integer, number, sections

COLUMNS = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "memory.total",
    "driver_version",
    "persistence_mode",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
)
GB10 = "GB10"
"""Part of the name of the GPU in DGX Spark and its like, whatever maker the machine has."""
LATE_COLUMN = "compute_cap"
"""Drivers before 510 do not support it and reject the query."""
MOMENTARY = ("temperature.gpu", "power.draw", "power.limit")
"""In °C and W; every driver knows them, and outputs of earlier versions do not have them."""
FORMS = (COLUMNS, (*COLUMNS, LATE_COLUMN), (*COLUMNS, *MOMENTARY), (*COLUMNS, LATE_COLUMN, *MOMENTARY))
"""The columns of outputs, which differ in number."""
COMMAND = rf"""
printf '==> pci <==\n'; chips=
for device in /sys/bus/pci/devices/*; do
  [ -r "$device/vendor" ] && read -r vendor <"$device/vendor" && read -r class <"$device/class" || continue
  case "$vendor $class" in
    '0x10de 0x0300'*|'0x10de 0x0302'*) echo "${{device##*/}}"; read -r chip <"$device/device" && chips="$chips $chip";;
  esac
done
printf '==> chips <==\n%s\n' "$chips"
printf '==> module <==\n'; cat /proc/driver/nvidia/version 2>/dev/null
printf '==> installed <==\n'; modinfo -F version nvidia 2>/dev/null
if [ -d /sys/module/nouveau ]; then echo '==> nouveau <=='; fi
command -v nvidia-smi >/dev/null 2>&1 || exit 0
query() {{ nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1; }}
if gpus=$(query {",".join(FORMS[3])}) || gpus=$(query {",".join(FORMS[2])}); then
  printf '==> gpus <==\n%s\n' "$gpus"
  printf '==> cuda <==\n'; nvidia-smi --version 2>/dev/null || nvidia-smi
else
  printf '==> problem <==\n%s\n' "$gpus"
fi
exit 0
"""
NO_VALUE = re.compile(r"\[?(?:N/A|Not Supported|Unknown Error|GPU requires reset|Not Found)\]?|\[.*\]")
MODULE = re.compile(r"NVRM version: .{0,80}?Kernel Module.{0,80}? (?P<version>\d{1,9}\.[\d.]{1,20}) ")
CUDA = re.compile(r"CUDA (?:UMD )?Version *: *(?P<version>\d+\.\d+)")
VERSION = re.compile(r"\d{1,9}\.[\d.]{1,20}")
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledGpu:
    """One GPU that the driver shows."""

    index: int
    name: str
    uuid: str | None = None
    pci: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    compute_capability: str | None = None
    """As `9.0`; old drivers do not report it."""
    persistence: bool | None = None
    ecc: bool | None = None
    """ECC is on; None if the card has none."""
    uncorrected_errors: int | None = None
    """Since the driver was loaded; None if they are not counted."""
    temperature_celsius: int | None = None
    power_watts: float | None = None
    """What it drew when it was read."""
    power_limit_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The NVIDIA GPUs of a machine."""

    gpus: tuple[InstalledGpu, ...] = ()
    on_bus: tuple[str, ...] | None = None
    """PCI addresses of NVIDIA GPUs, with or without a driver; None if not read."""
    chips: tuple[int, ...] | None = None
    """PCI device numbers of those GPUs; None if not read."""
    module: str | None = None
    """Version of the loaded kernel driver."""
    installed: str | None = None
    """Version of the kernel driver that is installed for the running kernel, loaded or not."""
    nouveau: bool = False
    """The kernel's own driver is loaded."""
    open_module: bool | None = None
    """The kernel driver is NVIDIA's open one."""
    cuda: str | None = None
    """Newest CUDA version that the driver supports; drivers before 410 do not report it."""
    problem: str | None = None
    """The error that nvidia-smi printed, in place of a list of GPUs or with it."""

    @property
    def is_gb10(self) -> bool:
        """The machine is a DGX Spark or its like, where GPU and processors share their memory."""
        return any(GB10 in card.name for card in self.gpus)

    @property
    def none_here(self) -> bool:
        """No NVIDIA GPU is in the machine."""
        return not (self.gpus or self.on_bus or self.module)


def parse(text: str) -> Gpus:
    """Read the sections; text without sections is a saved query, which may have a heading and other columns."""
    parts = dict(sections(text))
    if not text.strip():
        raise ParseError("nothing was printed")
    module = parts.get("module", "").strip()
    cuda = CUDA.search(parts.get("cuda", ""))
    lines = [line for line in parts.get("gpus", parts.get("", "")).splitlines() if line.strip()]
    warnings = [line for line in lines if line.startswith("WARNING:")]
    columns, rows = _columns([line for line in lines if line not in warnings])
    problems = [*parts.get("problem", "").strip().splitlines(), *warnings]
    return Gpus(
        gpus=tuple(_gpu(line, columns) for line in rows),
        on_bus=_on_bus(parts["pci"]) if "pci" in parts else None,
        chips=tuple(integer(chip, base=16) for chip in parts["chips"].split()) if "chips" in parts else None,
        module=_module_version(module) if module else None,
        installed=_installed_version(parts.get("installed", "")),
        nouveau="nouveau" in parts,
        open_module="Open Kernel Module" in module if module else None,
        cuda=cuda["version"] if cuda else None,
        problem=problems[0] if problems else None,
    )


def _without_unit(heading: str) -> str:
    return heading.partition(" [")[0] if heading.endswith("]") else heading


def _columns(rows: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns, from the heading if there is one, and the rows below it."""
    named = tuple(_without_unit(cell.strip()) for cell in rows[0].split(",")) if rows else ()
    if {"index", "name"} <= set(named):
        return named, rows[1:]
    return next((columns for columns in reversed(FORMS) if len(named) >= len(columns)), COLUMNS), rows


def _gpu(line: str, columns: tuple[str, ...]) -> InstalledGpu:
    cells = line.split(",")
    if len(cells) != len(columns):
        raise ParseError(f"nvidia-smi: expected {len(columns)} columns", line=line)
    values = {column: _value(cell.strip()) for column, cell in zip(columns, cells, strict=True)}
    index, name = values["index"], values["name"]
    if index is None or name is None:
        raise ParseError("nvidia-smi: a GPU without index or name", line=line)
    pci, memory, errors = (values.get(column) for column in ("pci.bus_id", "memory.total", COLUMNS[-1]))
    capability = values.get(LATE_COLUMN)
    temperature, power, limit = map(values.get, MOMENTARY)
    return InstalledGpu(
        index=integer(index),
        name=name,
        uuid=values.get("uuid"),
        pci=pci.lower() if pci else None,
        memory_bytes=integer(memory.removesuffix("MiB")) * 2**20 if memory else None,
        driver=values.get("driver_version"),
        compute_capability=_capability(capability) if capability else None,
        persistence=_parse_enabled(values.get("persistence_mode")),
        ecc=_parse_enabled(values.get("ecc.mode.current")),
        uncorrected_errors=integer(errors) if errors else None,
        temperature_celsius=integer(temperature) if temperature else None,
        power_watts=_watts(power),
        power_limit_watts=_watts(limit),
    )


def _watts(cell: str | None) -> float | None:
    return number(cell.removesuffix(" W")) if cell else None


def _value(cell: str) -> str | None:
    return None if not cell or NO_VALUE.fullmatch(cell) else cell


def _parse_enabled(cell: str | None) -> bool | None:
    if cell not in (None, "Enabled", "Disabled"):
        raise ParseError("nvidia-smi: expected Enabled or Disabled", line=str(cell))
    return None if cell is None else cell == "Enabled"


def _capability(cell: str) -> str:
    if not re.fullmatch(r"\d{1,2}\.\d", cell, re.ASCII):
        raise ParseError("nvidia-smi: expected a compute capability", line=cell)
    return cell


def _on_bus(text: str) -> tuple[str, ...]:
    addresses = text.split()
    for address in addresses:
        if not PCI.fullmatch(address):
            raise ParseError("expected a PCI address", line=address)
    return tuple(addresses)


def _installed_version(text: str) -> str | None:
    """Return the version; modules that are signed or packed by others may have any text for it."""
    words = text.split()
    return words[0] if len(words) == 1 and VERSION.fullmatch(words[0]) else None


def _module_version(text: str) -> str:
    match = MODULE.search(text)
    if not match:
        raise ParseError("expected the version of NVIDIA's kernel driver", line=text.splitlines()[0])
    return match["version"]


PROBE = Probe(
    name="gpu",
    title="NVIDIA GPUs, driver, ECC errors",
    command=COMMAND,
    parse=parse,
    facts=Gpus,
    timeout=10.0,
)
