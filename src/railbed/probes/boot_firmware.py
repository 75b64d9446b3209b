"""What the firmware of ConnectX cards starts with after the next boot (`mlxconfig` or `mstconfig`, column `Next Boot`).

Only the parameters of congestion control are read.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.text import integer, sections

PARAMETERS = ("ROCE_CC_PRIO_MASK", "CNP_DSCP")
COMMAND = r"""
tool=$(command -v mlxconfig || command -v mstconfig)
for netdev in {netdevs}; do
  folder="/sys/class/net/$netdev/device"
  [ -n "$tool" ] && [ "$(basename "$(readlink "$folder/driver")")" = mlx5_core ] || continue
  printf '==> %s <==\n' "$netdev"
  "$tool" -d "$(basename "$(readlink -f "$folder")")" query 2>&1 </dev/null |
    grep -E '^Configurations|^-E-|{parameters}'
done
echo '==> end <=='
"""
_ROW = re.compile(r"\*?\s*+(?P<name>[A-Z0-9_]{1,64})_P\d++\s++(?:\S++\s++)*?(?P<value>\S++)\s*+", re.ASCII)
_NUMBER = re.compile(r"(?:\S*\()?(?P<number>0x[0-9a-fA-F]{1,8}|\d{1,10})\)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFirmware:
    """What a card starts with; None if it is not known, or differs between its ports."""

    cc_priorities: int | None = None
    """The priorities with congestion control, a bit for each."""
    cnp_dscp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFirmware:
    """What firmware starts with, by interface; without the tool, or for other cards, there is none."""

    interfaces: dict[str, CardFirmware] = field(default_factory=dict)


def _command(cluster: Cluster, device: str) -> str:
    netdevs = shlex.join(port.netdev for port in cluster.nodes[device].ports)
    return COMMAND.format(netdevs=netdevs, parameters="|".join(f"{name}_P[0-9]" for name in PARAMETERS))


def parse(text: str) -> BootFirmware:
    """Read the parameters of each card; a saved output of the tool has no interface."""
    if not text.strip():
        raise ParseError("nothing was printed")
    parts = {name: body for name, body in sections(text) if name != "end" and body.strip()}
    return BootFirmware(interfaces={name: _card(body.splitlines()) for name, body in parts.items()})


def _card(lines: list[str]) -> CardFirmware:
    heading = next((line for line in lines if line.startswith("Configurations")), "")
    if not heading:
        refused = next((line for line in lines if line.startswith("-E-")), "")
        if refused:
            return CardFirmware()
        raise ParseError("expected `Configurations:`, as mlxconfig prints it", line=lines[0])
    if not heading.rstrip().endswith("Next Boot"):
        return CardFirmware()
    values: dict[str, set[str]] = {}
    for line in lines:
        if (match := _ROW.fullmatch(line.strip())) and match["name"] in PARAMETERS:
            values.setdefault(match["name"], set()).add(match["value"])
    mask, dscp = (_common_number(values.get(name, set())) for name in PARAMETERS)
    return CardFirmware(cc_priorities=mask, cnp_dscp=dscp)


def _common_number(values: set[str]) -> int | None:
    """Return the number that all ports of a card have."""
    match = _NUMBER.fullmatch(next(iter(values))) if len(values) == 1 else None
    return integer(match["number"], base=0) if match else None


PROBE = Probe(
    name="boot_firmware",
    title="what the firmware of ConnectX cards starts with",
    command=_command,
    parse=parse,
    facts=BootFirmware,
    needs_root=True,
    timeout=20.0,
)
