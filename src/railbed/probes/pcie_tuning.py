"""PCIe settings on the way to cards and GPUs: read requests, relaxed ordering, ACS, IOMMU, and whether guests run.

The registers are read with setpci, which is fast; `lspci -vvv` reads the vital data of each card, too, and takes
seconds. Its text is accepted if somebody saved it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
FUNCTION = re.compile(rf"function ({ADDRESS}) (card|gpu|bridge) (\S*) (\S+)", re.ASCII)
"""Kind, the bridges above it from the top separated by commas, and the type of its IOMMU group or `-`."""
REGISTER = re.compile(rf"(devctl|acsctl) ({ADDRESS}) ([0-9a-f]{{4}})", re.ASCII)
MACHINE = re.compile(r"(iommus|guests) (\d{1,6})", re.ASCII)
OPTIONS = re.compile(r"options\b(.*)")
OF_LSPCI = re.compile(rf"({ADDRESS}) (\S.*)", re.ASCII)
LSPCI_REQUEST = re.compile(r"MaxPayload (\d{2,4}) bytes, MaxReadReq (\d{2,4}) bytes", re.ASCII)
LSPCI_ORDERING = re.compile(r"\bRlxdOrd([+-])")
LSPCI_ACS = re.compile(r"ACSCtl:\s*(.*)")
OTHER_DEVICE = re.compile(r"[0-9a-fA-F]{2,8}:.*")
"""A line of lspci that may be about another device, which is then not known."""
LSPCI_OTHER = re.compile(
    r"[:=<]|MaxPayload |\w[+-](?!\w)| at [0-9a-f]|^\s*(?:End|!!!|Steering table|Interrupt vector|No steering)"
)
"""Forms of lspci's lines: names with values, flags, addresses, and a few sentences."""
RELAXED_ORDERING, REDIRECT = 0x10, 0x04 | 0x08
"""Bits of the device control and ACS control registers; requests and completions that are redirected upwards."""
ACS_BITS = {"ReqRedir": 0x04, "CmpltRedir": 0x08}


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """A card, a GPU or a bridge above one."""

    kind: str = ""
    """`card`, `gpu` or `bridge`; empty in the output of lspci alone."""
    bridges: tuple[str, ...] = ()
    """The bridges above it, from the top."""
    iommu: str | None = None
    """Type of its IOMMU group: `identity` (passed through), `DMA` or `DMA-FQ` (translated); None without an IOMMU."""
    max_read_request: int | None = None
    """Bytes that it asks for at a time."""
    max_payload: int | None = None
    relaxed_ordering: bool | None = None
    acs_redirects: bool | None = None
    """Whether it sends packets between devices below it up to the root first; None without ACS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieTuning(TextFacts):
    """PCIe settings of a machine."""

    functions: dict[str, PciFunction] = field(default_factory=dict)
    """By PCI address."""
    iommus: int | None = None
    """IOMMUs in use."""
    guests: int | None = None
    """Virtual machines that run here, and devices reserved for them."""
    options: tuple[str, ...] = ()
    """Boot options of the kernel about IOMMU and PCI."""


def parse(text: str) -> PcieTuning:
    """Read the lines of our command, or lspci's, most of which are not needed."""
    functions: dict[str, PciFunction] = {}
    numbers: dict[str, int] = {}
    options: tuple[str, ...] = ()
    address = ""
    lines = Lines(text)
    for line in lines:
        words = line.strip()
        if match := MACHINE.fullmatch(words):
            numbers[match[1]] = integer(match[2])
        elif match := OPTIONS.fullmatch(words):
            options = tuple(match[1].split())
        elif match := FUNCTION.fullmatch(words):
            functions[match[1]] = _function(match)
        elif match := REGISTER.fullmatch(words):
            functions[match[2]] = _with_register(functions.get(match[2], PciFunction()), match[1], match[3])
        elif match := OF_LSPCI.fullmatch(line):
            address = match[1] if len(match[1]) > len("00:00.0") else f"0000:{match[1]}"
            functions.setdefault(address, PciFunction())
        elif address and line[0].isspace() and LSPCI_OTHER.search(line):
            functions[address] = _with_line(functions[address], words)
        else:
            address = "" if OTHER_DEVICE.fullmatch(line) else address
            lines.unknown(line)
    lines.require_known("no PCI device")
    return PcieTuning(
        functions=functions,
        iommus=numbers.get("iommus"),
        guests=numbers.get("guests"),
        options=options,
        not_understood=lines.not_understood,
    )


def _function(match: re.Match[str]) -> PciFunction:
    group = match[4]
    return PciFunction(
        kind=match[2], bridges=tuple(filter(None, match[3].split(","))), iommu=None if group == "-" else group
    )


def _with_register(function: PciFunction, register: str, value: str) -> PciFunction:
    bits = integer(value, base=16)
    if register == "acsctl":
        return replace(function, acs_redirects=bool(bits & REDIRECT))
    return replace(
        function,
        max_payload=128 << (bits >> 5 & 7),
        max_read_request=128 << (bits >> 12 & 7),
        relaxed_ordering=bool(bits & RELAXED_ORDERING),
    )


def _with_line(function: PciFunction, line: str) -> PciFunction:
    """Add what a line of lspci shows."""
    if match := LSPCI_REQUEST.search(line):
        function = replace(function, max_payload=integer(match[1]), max_read_request=integer(match[2]))
    if match := LSPCI_ACS.fullmatch(line):
        return replace(function, acs_redirects=any(f"{name}+" in match[1] for name in ACS_BITS))
    if (match := LSPCI_ORDERING.search(line)) and not line.startswith(("LnkC", "RootC")):
        return replace(function, relaxed_ordering=match[1] == "+")
    return function


COMMAND = r"""
guests=0
for path in /sys/bus/pci/drivers/vfio-pci/*:*; do [ -e "$path" ] && guests=$((guests + 1)); done
for path in /sys/kernel/debug/kvm/*-*; do [ -d "$path" ] && guests=$((guests + 1)); done
echo "guests $guests"
iommus=0
for path in /sys/class/iommu/*; do [ -e "$path" ] && iommus=$((iommus + 1)); done
echo "iommus $iommus"
options=
for word in $(cat /proc/cmdline 2>/dev/null); do
  case $word in iommu=* | iommu.* | intel_iommu=* | amd_iommu=* | pci=*) options="$options $word" ;; esac
done
echo "options$options"
cd /sys/bus/pci/devices 2>/dev/null || exit 0
all=' '
for address in *; do
  kind=
  if [ -d "$address/net" ] || [ -d "$address/infiniband" ]; then kind=card; else
    read -r class 2>/dev/null <"$address/class" || class=
    read -r vendor 2>/dev/null <"$address/vendor" || vendor=
    case $class:$vendor in 0x0300*:0x10de | 0x0302*:0x10de | 0x0380*:0x1002 | 0x1200*:0x1002) kind=gpu ;; esac
  fi
  [ "$kind" ] || continue
  bridges=
  above=$(readlink -f "$address")
  above=${above#/sys/devices/pci*/}
  above=${above%"$address"}
  for bridge in $(echo "$above" | tr / ' '); do
    bridges=${bridges:+$bridges,}$bridge
    case $all in *" $bridge "*) ;; *) all="$all$bridge "; echo "function $bridge bridge  -" ;; esac
  done
  read -r group 2>/dev/null <"$address/iommu_group/type" || group=-
  echo "function $address $kind $bridges $group"
  all="$all$address "
done
command -v setpci >/dev/null 2>&1 || exit 0
for address in $all; do
  value=$(setpci -s "$address" CAP_EXP+8.w 2>/dev/null) && [ "$value" ] && echo "devctl $address $value"
  value=$(setpci -s "$address" ECAP_ACS+6.w 2>/dev/null) && [ "$value" ] && echo "acsctl $address $value"
done
exit 0
"""

PROBE = Probe(
    name="pcie_tuning",
    title="PCIe on the way to cards and GPUs: read requests, ordering, ACS, IOMMU",
    command=COMMAND,
    parse=parse,
    facts=PcieTuning,
    needs_root=True,
)
