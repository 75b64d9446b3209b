"""Names of switch ports: switches, LLDP and people write the same port in several ways."""

from __future__ import annotations

import re

PREFIX = re.compile(r"^(ethernet|eth|et|hundredgige|twentyfivegige|fortygige)(?=\d)")


def short_name(port: str) -> str:
    """Return one name for one port: `Ethernet1/1`, `Eth1/1` and `eth1/1` are the same."""
    return PREFIX.sub("eth", port.strip().lower())
