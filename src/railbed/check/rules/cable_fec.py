"""Both ends of a cable use the same forward error correction.

What
----
`ethtool --show-fec` on the node and `show interface fec` (or `show interface`) on the switch show the same kind of
code: none, FC-FEC or RS-FEC, whatever each calls it. While a link is down, only what is set at both ends is compared:
what is active means nothing then. A 100G link that needs RS-FEC and has none is a warning.

Why
---
FEC is negotiated over copper only. Over optics both ends have to be set alike: if they are not, the link stays down
although light arrives at both ends. That is the usual reason why a 25G or 100G port does not come up. Without the FEC
that its standard asks for, a link comes up and loses packets.

Fix
---
Set the same at both ends: `ethtool --set-fec IF encoding rs` on the node, `fec rs-fec` at the switch port (25G cards
that follow IEEE may need `fec rs-ieee`). The node loses its setting at a reboot; `railbed configure` stores it.

Source
------
Cisco Nexus 9000 Series NX-OS Interfaces Configuration Guide (fec, show interface fec); ethtool(8); IEEE 802.3 clauses
74, 91 and 108.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.hardware.fec import (
    ENCODINGS,
    NEEDS_RS,
    FecClass,
    active_class,
    admin_class,
    operational_class,
    wanted_class,
)
from railbed.check.shared.nexus_qos import no_port
from railbed.check.shared.port import no_interface
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.parsing.nexus.answer import find_port
from railbed.probes import ethtool_fec, ip_link
from railbed.probes.ethtool_fec import FecSettings
from railbed.probes.nexus import fec, optics
from railbed.probes.nexus.fec import SwitchFec
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import CableView

EXPECTED = "the same FEC at both ends"
SPEEDS_OF_THREE_RS = (25, 50)
"""Gb/s at which NX-OS has three kinds of RS-FEC."""


def judge(cable: CableView) -> Iterator[Judgement]:
    """Compare the two ends."""
    netdev = cable.port.port.netdev
    link = cable.port.read(ip_link.PROBE).links.get(netdev)
    here = cable.port.read(ethtool_fec.PROBE).interfaces.get(netdev, FecSettings())
    there = find_port(cable.switch_port.read(fec.PROBE).ports, cable.switch_port.port.name)
    if link is None:
        yield no_interface(netdev)
    elif there is None:
        yield no_port(cable.switch_port)
    elif not here.active and not here.configured:
        yield skip("the card's driver shows no FEC", expected=EXPECTED)
    elif there.admin is None and there.operational is None:
        yield skip("the switch shows no FEC", expected=EXPECTED)
    else:
        yield replace(
            _compare_active(cable, here, there) if link.has_carrier else _compare_settings(cable, here, there),
            evidence=f"node: set {' '.join(here.configured)}, active {' '.join(here.active)}\n"
            f"switch: set {there.admin}, active {there.operational}",
        )


def _compare_active(cable: CableView, here: FecSettings, there: SwitchFec) -> Judgement:
    own, other = active_class(here), operational_class(there)
    where = cable.switch_port.subject
    if own is None or other is None:
        end = cable.subject if own is None else where
        return unknown(expected=EXPECTED, observed=f"{end} does not show which FEC is active")
    if own != other:
        observed = f"{own} here, {other} at {where}"
        return fail(observed, expected=EXPECTED, remedy=f"set both ends alike: {_commands(cable, other)}")
    if own == "none" and (kind := _module_type(cable)) and NEEDS_RS.search(kind):
        remedy = f"{_commands(cable, 'RS-FEC')}, at both ends: the link goes down for a moment"
        return warn(f"no FEC on {kind}, which needs RS-FEC", expected=EXPECTED, remedy=remedy)
    return ok(expected=EXPECTED, observed=own if own != "none" else "no FEC")


def _compare_settings(cable: CableView, here: FecSettings, there: SwitchFec) -> Judgement:
    """Judge a link that is down by what is set: it may be down for another reason, or for this one."""
    own, other = wanted_class(here), admin_class(there)
    where = cable.switch_port.subject
    if own is None or other is None:
        return skip("no link, and not both ends show what is set: see link_up", expected=EXPECTED)
    if own == other == "RS-FEC" and there.admin != "rs-ieee" and cable.port.rail.speed in SPEEDS_OF_THREE_RS:
        remedy = f"if light arrives at both ends, enter `fec rs-ieee` at {where}, then `fec rs-cons16`"
        observed = f"no link; RS-FEC here and {there.admin} at {where}, which need not be the same RS-FEC"
        return warn(observed, expected=EXPECTED, remedy=remedy)
    if own == other:
        return skip("no link, with the same FEC set at both ends: see link_up", expected=EXPECTED)
    observed = f"no link; {own} here, {other} at {where}"
    if own != "auto" and other != "auto":
        return fail(observed, expected=EXPECTED, fix=_fix(cable, own, other, there))
    if "none" in (own, other):
        return warn(observed, expected=EXPECTED, remedy="auto chooses a code, none has none: set both ends alike")
    return skip(f"{observed}: auto may be the same", expected=EXPECTED)


def _fix(cable: CableView, own: FecClass, other: FecClass, there: SwitchFec) -> Fix:
    return Fix(
        device=cable.port.node.name,
        apply=as_steps(_set_fec(cable, other)),
        undo=as_steps(_set_fec(cable, own)),
        persistence=Persistence.BOOT,
        interrupts=True,
        alternative=f"if the node is right, replace `fec {there.admin}` at {cable.switch_port.subject}",
    )


def _set_fec(cable: CableView, wanted: FecClass) -> str:
    return f"ethtool --set-fec {shlex.quote(cable.port.port.netdev)} encoding {ENCODINGS[wanted]}"


def _commands(cable: CableView, wanted: FecClass) -> str:
    line = {"none": "fec off", "FC-FEC": "fec fc-fec"}.get(wanted, "fec rs-fec")
    return f"`{_set_fec(cable, wanted)}` on the node, `{line}` at {cable.switch_port.subject}"


def _module_type(cable: CableView) -> str | None:
    facts = cable.switch_port.switch.try_read(optics.PROBE)
    module = find_port(facts.ports, cable.switch_port.port.name) if facts else None
    return module.type if module else None


RULE = Rule(
    name="cable_fec",
    title="same FEC at both ends of a cable",
    scope="cable",
    stage="cabling",
    needs=(ethtool_fec.PROBE, ip_link.PROBE, fec.PROBE, optics.PROBE),
    judge=judge,
    doc=__doc__,
    rank=80,
)
