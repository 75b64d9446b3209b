"""Model, release and name of a Nexus (`show version`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import read_object, value_of
from railbed.parsing.text import Fields

RELEASE = re.compile(r"\s*(?:NXOS|system):\s+version (\S+)")
CHASSIS = re.compile(r"\s*cisco (\S.*)")
SERIAL = re.compile(r"\s*Processor Board ID (\S+)")
NAME = re.compile(r"\s*Device name: (\S+)")
PATTERNS = {"release": RELEASE, "chassis": CHASSIS, "serial": SERIAL, "hostname": NAME}
TITLE = "Software"
"""Everything above this title is a banner."""
KNOWN = re.compile(
    r"(?:Software|Hardware|plugin|Intel|Kernel uptime|Last reset|Core Plugin|Device name)\b", re.IGNORECASE
)
"""How the lines of `show version` without a colon begin that are not facts here."""
NEXUS_5000 = re.compile(r"Nexus ?[56]\d|N[56]K-", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(TextFacts):
    """The identity of a switch."""

    release: str
    """Release of NX-OS: `10.4(3)`."""
    chassis: str
    """Its model in words: `Nexus9000 C93180YC-FX3 Chassis`."""
    hostname: str | None = None
    serial: str | None = None

    @property
    def is_nexus_5000(self) -> bool:
        """Whether it is a Nexus 5000 or 6000, whose QoS commands differ."""
        return NEXUS_5000.search(self.chassis) is not None


def parse(text: str) -> Version:
    """Read both forms."""
    fields = read_object(text)
    return _of_json(fields) if fields else _of_text(Lines(text))


def _of_json(fields: Fields) -> Version:
    keys = ("nxos_ver_str", "sys_ver_str", "kickstart_ver_str", "rr_sys_ver")
    release = next(filter(None, (value_of(fields, key) for key in keys)), None)
    chassis = value_of(fields, "chassis_id")
    if release is None or chassis is None:
        raise ParseError("no release or no chassis", line=str(dict(fields.items()))[:120])
    return Version(
        release=release,
        chassis=chassis,
        hostname=value_of(fields, "host_name"),
        serial=value_of(fields, "proc_board_id"),
    )


def _of_text(lines: Lines) -> Version:
    values: dict[str, str] = {}
    is_banner = True
    for line in lines:
        read = {key: match[1].strip() for key, pattern in PATTERNS.items() if (match := pattern.match(line))}
        values = read | values
        is_banner = is_banner and line.strip() != TITLE
        if not read and not is_banner and ":" not in line and not KNOWN.match(line.strip()):
            lines.unknown(line)
    lines.require("release" in values and "chassis" in values, "no release or no chassis")
    return Version(
        release=values["release"],
        chassis=values["chassis"],
        hostname=values.get("hostname"),
        serial=values.get("serial"),
        not_understood=lines.not_understood,
    )


PROBE = Probe(
    name="nexus_version",
    title="model, release and name of a Nexus",
    command="show version | json\nshow version",
    parse=parse,
    facts=Version,
    runs_on="switch",
    one_line=True,
)
