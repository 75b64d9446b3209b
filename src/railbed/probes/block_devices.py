"""Disks: model, size, kind and how they are attached (`lsblk`)."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import Fields, integer, json_value

COMMAND = "lsblk -J -b -d -o NAME,TYPE,SIZE,MODEL,ROTA,TRAN"
IN_MEMORY = ("ram", "zram")
"""Prefixes of devices that lsblk calls disks and that keep nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """One disk."""

    name: str
    size_bytes: int
    model: str | None = None
    """None for disks without one, such as most virtual ones."""
    rotational: bool | None = None
    """As the kernel assumes; virtual disks often count as rotational."""
    transport: str | None = None
    """`nvme`, `sata`, `sas`, `usb`, `virtio`, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevices:
    """The disks of a machine, without partitions, loop devices, optical drives and those in memory."""

    disks: tuple[BlockDevice, ...]


def parse(text: str) -> BlockDevices:
    """Read lsblk's JSON: numbers and true are text in versions before 2.33 (`"1"`)."""
    if not text.strip():
        raise ParseError("nothing was printed")
    entries = Fields(json_value(text)).subs("blockdevices")
    return BlockDevices(disks=tuple(_disk(entry) for entry in entries if _is_disk(entry)))


def _is_disk(entry: Fields) -> bool:
    return entry.text("type") == "disk" and not entry.text("name").startswith(IN_MEMORY)


def _disk(entry: Fields) -> BlockDevice:
    return BlockDevice(
        name=entry.text("name"),
        size_bytes=integer(str(entry.get("size"))),
        model=(entry.optional_text("model") or "").strip() or None,
        rotational=_flag(entry.get("rota")),
        transport=entry.optional_text("tran") or None,
    )


def _flag(value: object) -> bool | None:
    match value:
        case None | "":
            return None
        case bool():
            return value
        case "0" | "1":
            return value == "1"
        case _:
            raise ParseError("lsblk: expected true or false", line=str(value)[:80])


PROBE = Probe(
    name="block_devices",
    title="disks with model, size and connection",
    command=COMMAND,
    parse=parse,
    facts=BlockDevices,
    tool="lsblk",
    package="util-linux",
    one_line=True,
)
