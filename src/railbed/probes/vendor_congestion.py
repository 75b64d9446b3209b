"""Congestion settings of Broadcom's and Intel's cards (bnxt_re: configfs, debugfs; irdma: configfs, module parameters).

Folders in configfs exist only where somebody created them, and creating one would change the node. Newer kernels, and
Broadcom's own driver, also show the settings of bnxt_re in debugfs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

BNXT = re.compile(r"\bbnxt_re/([^/:\s]{1,64})/ports/\d{1,3}/cc/(\w{1,64}):(.*)", re.ASCII)
BNXT_DEBUG = re.compile(r"\bbnxt_re/([0-9a-f:.]{1,16})/cc_config/(\w{1,64}):(.*)", re.ASCII)
IRDMA = re.compile(r"\bconfig/irdma/([^/:\s]{1,64})/(\w{1,64}):(.*)", re.ASCII)
PARAMETER = re.compile(r"\bmodule/irdma/parameters/(\w{1,64}):(.*)", re.ASCII)
VALUE = re.compile(r"(0x[0-9a-fA-F]{1,16}|\d{1,19})\b", re.ASCII)
SWITCH = {"Y": 1, "N": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCongestion(TextFacts):
    """Settings by device, with the names that the driver gives them."""

    bnxt: dict[str, dict[str, int]]
    """By RDMA device (configfs), or by PCI address (debugfs)."""
    irdma: dict[str, dict[str, int]]
    """By RDMA device; the module's parameters are under the empty name."""


def parse(text: str) -> VendorCongestion:
    """Read `path:value` lines; values that are not numbers do not matter, and no output means neither driver."""
    bnxt: dict[str, dict[str, int]] = {}
    irdma: dict[str, dict[str, int]] = {}
    lines = Lines(text)
    for line in lines:
        if match := BNXT.search(line) or BNXT_DEBUG.search(line):
            _add(bnxt.setdefault(match[1], {}), match[2], match[3])
        elif match := IRDMA.search(line):
            _add(irdma.setdefault(match[1], {}), match[2], match[3])
        elif match := PARAMETER.search(line):
            _add(irdma.setdefault("", {}), match[1], match[2])
        else:
            lines.unknown(line)
    lines.require_known("no setting of bnxt_re or irdma")
    return VendorCongestion(bnxt=bnxt, irdma=irdma, not_understood=lines.not_understood)


def _add(settings: dict[str, int], name: str, text: str) -> None:
    word = text.strip()
    if word in SWITCH:
        settings[name] = SWITCH[word]
    elif match := VALUE.match(word):
        settings[name] = integer(match[1], base=0 if match[1].startswith("0x") else 10)


COMMAND = """
grep -sH '' /sys/kernel/config/bnxt_re/*/ports/*/cc/*
grep -sH '' /sys/kernel/debug/bnxt_re/*/cc_config/*
grep -sH '' /sys/kernel/config/irdma/*/*
grep -sH '' /sys/module/irdma/parameters/*
exit 0
"""

PROBE = Probe(
    name="vendor_congestion",
    title="congestion settings of Broadcom's and Intel's cards",
    command=COMMAND,
    parse=parse,
    facts=VendorCongestion,
    needs_root=True,
)
