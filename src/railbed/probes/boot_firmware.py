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
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

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
KNOWN = re.compile(r"Configurations:|Device |Description:|Name:|[A-Z][A-Z0-9_]*+(?:\s|$)|-E-|The '\*'")
"""How the other lines of mlxconfig begin."""
_NUMBER = re.compile(r"(?:\S*\()?(?P<number>0x[0-9a-fA-F]{1,8}|\d{1,10})\)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardBootSettings:
    """What a card starts with; None if it is not known, or differs between its ports."""

    cc_priorities: int | None = None
    """The priorities with congestion control, a bit for each."""
    cnp_dscp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFirmware(TextFacts):
    """What firmware starts with, by interface; without the tool, or for other cards, there is none."""

    interfaces: dict[str, CardBootSettings] = field(default_factory=dict)


def _command(cluster: Cluster, device: str) -> str:
    netdevs = shlex.join(port.netdev for port in cluster.nodes[device].ports)
    return COMMAND.format(netdevs=netdevs, parameters="|".join(f"{name}_P[0-9]" for name in PARAMETERS))


def parse(text: str) -> BootFirmware:
    """Read the parameters of each card; a saved output of the tool has no interface."""
    if not text.strip():
        raise ParseError("nothing was printed")
    lines = Lines(text)
    parts = {name: list(part) for name, part in lines.sections() if name != "end"}
    interfaces = {name: _card(body, lines) for name, body in parts.items() if body}
    return BootFirmware(interfaces=interfaces, not_understood=lines.not_understood)


def _card(shown: list[str], lines: Lines) -> CardBootSettings:
    heading = next((line for line in shown if line.startswith("Configurations")), "")
    for line in shown:
        if not KNOWN.match(line.strip()) and not _ROW.fullmatch(line.strip()):
            lines.unknown(line)
    if not heading:
        refused = next((line for line in shown if line.startswith("-E-")), "")
        if refused:
            return CardBootSettings()
        raise ParseError("expected `Configurations:`, as mlxconfig prints it", line=shown[0])
    if not heading.rstrip().endswith("Next Boot"):
        return CardBootSettings()
    values: dict[str, set[str]] = {}
    for line in shown:
        if (match := _ROW.fullmatch(line.strip())) and match["name"] in PARAMETERS:
            values.setdefault(match["name"], set()).add(match["value"])
    mask, dscp = (_common_number(values.get(name, set())) for name in PARAMETERS)
    return CardBootSettings(cc_priorities=mask, cnp_dscp=dscp)


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
