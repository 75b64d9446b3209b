"""RDMA devices and their ports: state, rate, GIDs, firmware, PCI address (/sys/class/infiniband)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.gids import Gid, gid_text, gid_type
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import Files, ports_of, rdma_devices
from railbed.parsing.text import integer, number

NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """One port of an RDMA device."""

    state: str | None = None
    """`ACTIVE`, `DOWN`, `INIT`, `ARMED`."""
    phys_state: str | None = None
    """`LinkUp`, `Disabled`, `Polling`, …"""
    rate_gbps: float | None = None
    link_layer: str | None = None
    """`Ethernet` or `InfiniBand`."""
    lid: int | None = None
    sm_lid: int | None = None
    """Address of the subnet manager; zero if there is none."""
    cap_mask: str | None = None
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevice:
    """One RDMA device."""

    name: str
    ports: dict[str, RdmaPort]
    """By number, as text."""
    fw_ver: str | None = None
    hca_type: str | None = None
    board_id: str | None = None
    node_guid: str | None = None
    node_type: str | None = None
    """`CA`, or `RNIC` for iWARP."""
    numa_node: int | None = None
    pci: str | None = None
    driver: str | None = None
    parent: str | None = None
    """Interface that Soft-RoCE runs on; hardware has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevices(TextFacts):
    """All RDMA devices of a machine, by name."""

    devices: dict[str, RdmaDevice]


def parse(text: str) -> RdmaDevices:
    """Read `path:value` lines of any part of the tree; other files are ignored."""
    lines = Lines(text)
    devices = {name: _device(name, files) for name, files in rdma_devices(lines).items()}
    return RdmaDevices(devices=devices, not_understood=lines.not_understood)


def _device(name: str, files: Files) -> RdmaDevice:
    numa = files.get("device/numa_node")
    return RdmaDevice(
        name=name,
        ports={port: _port(below) for port, below in ports_of(files).items()},
        fw_ver=files.get("fw_ver") or None,
        hca_type=files.get("hca_type") or None,
        board_id=files.get("board_id") or None,
        node_guid=files.get("node_guid") or None,
        node_type=_name_of_state(files.get("node_type")),
        numa_node=integer(numa) if numa and not numa.startswith("-") else None,
        pci=files.get("device/uevent/PCI_SLOT_NAME"),
        driver=files.get("device/uevent/DRIVER"),
        parent=files.get("parent") or None,
    )


def _port(files: Files) -> RdmaPort:
    return RdmaPort(
        state=_name_of_state(files.get("state")),
        phys_state=_name_of_state(files.get("phys_state")),
        rate_gbps=_rate(files.get("rate")),
        link_layer=files.get("link_layer") or None,
        lid=_hexadecimal(files.get("lid")),
        sm_lid=_hexadecimal(files.get("sm_lid")),
        cap_mask=files.get("cap_mask") or None,
        gids=tuple(sorted(_gids(files), key=lambda gid: gid.index)),
    )


def _gids(files: Files) -> Iterator[Gid]:
    # On an InfiniBand link every entry reads `IB/RoCE v1` and is not a RoCE GID.
    is_roce = files.get("link_layer") != "InfiniBand"
    for path, value in files.items():
        folder, _, index = path.rpartition("/")
        if folder == "gids" and value and value != NO_GID:
            yield Gid(
                index=integer(index),
                gid=gid_text(value),
                type=gid_type(files.get(f"gid_attrs/types/{index}", "")) if is_roce else None,
                netdev=files.get(f"gid_attrs/ndevs/{index}") or None,
            )


def _name_of_state(value: str | None) -> str | None:
    """`4: ACTIVE` is ACTIVE."""
    return value.rpartition(":")[2].strip() or None if value else None


def _rate(value: str | None) -> float | None:
    if not value:
        return None
    match = re.match(r"(\S+) Gb/sec", value)
    if not match:
        raise ParseError("expected a rate in Gb/sec", line=value)
    return number(match.group(1))


def _hexadecimal(value: str | None) -> int | None:
    return integer(value, base=16) if value else None


# A port has up to a thousand GID slots, of which few are used: type and interface are read only for those, and by one
# process, since on an emulated machine each file takes a millisecond and each process many.
COMMAND = r"""
cd /sys/class/infiniband 2>/dev/null || exit 0
grep -sH '' */fw_ver */hca_type */board_id */node_guid */node_type */parent */device/numa_node */device/uevent \
  */ports/*/state */ports/*/phys_state */ports/*/rate */ports/*/link_layer */ports/*/lid */ports/*/sm_lid \
  */ports/*/cap_mask
used=$(grep -sH '[1-9a-f]' */ports/*/gids/*)
set --
for gid in $used; do
  path=${gid%%:*}; port=${path%/gids/*}; index=${path##*/}
  set -- "$@" "$port/gid_attrs/types/$index" "$port/gid_attrs/ndevs/$index"
done
[ $# -eq 0 ] || { printf '%s\n' "$used"; grep -sH '' "$@"; }
exit 0
"""

PROBE = Probe(
    name="infiniband",
    title="RDMA devices and ports: state, rate, GIDs, firmware",
    command=COMMAND,
    parse=parse,
    facts=RdmaDevices,
)
