"""Forward error correction: the names that hosts and switches give to the same code, and which cables need one."""

from __future__ import annotations

import re
from typing import Literal

from railbed.probes.ethtool_fec import FecSettings
from railbed.probes.nexus.fec import SwitchFec

FecClass = Literal["none", "FC-FEC", "RS-FEC", "low-latency RS-FEC"]
OF_HOST: dict[str, FecClass] = {
    "off": "none",
    "baser": "FC-FEC",
    "rs": "RS-FEC",
    "llrs": "low-latency RS-FEC",
}
"""`none` is not among them: drivers report it for a port without a link, and for one that shows nothing."""
OF_SWITCH: dict[str, FecClass] = {
    "off": "none",
    "fec-off": "none",
    "fc-fec": "FC-FEC",
    "rs-fec": "RS-FEC",
    "rs-ieee": "RS-FEC",
    "rs-cons16": "RS-FEC",
    "kp-fec": "RS-FEC",
}
ENCODINGS: dict[FecClass, str] = {"none": "off", "FC-FEC": "baser", "RS-FEC": "rs", "low-latency RS-FEC": "llrs"}
"""What `ethtool --set-fec` calls them."""
NEEDS_RS = re.compile(r"100G(?:BASE)?-?(SR4|CR4|CU|PSM4|CWDM4)", re.IGNORECASE)
"""Modules and cables whose standard has FEC; LR4 and ER4 have none."""


def active_class(settings: FecSettings) -> FecClass | None:
    """Return the code in use on a node's port; None if the driver does not show one."""
    return OF_HOST.get(settings.active[0].lower()) if len(settings.active) == 1 else None


def wanted_class(settings: FecSettings) -> FecClass | Literal["auto"] | None:
    """Return the code that is set on a node's port. Several names are those that the card supports."""
    if len(settings.configured) != 1:
        return None
    word = settings.configured[0].lower()
    return "auto" if word == "auto" else OF_HOST.get(word)


def operational_class(port: SwitchFec) -> FecClass | None:
    """Return the code in use on a switch port; None while there is no link."""
    return OF_SWITCH.get(port.operational or "")


def admin_class(port: SwitchFec) -> FecClass | Literal["auto"] | None:
    """Return the code that is set on a switch port."""
    return "auto" if port.admin == "auto" else OF_SWITCH.get(port.admin or "")
