"""The firmware settings of a rail's cards are the same on all nodes.

What
----
Cards of one type have the same values for congestion control (`RPG_…`, `CNP_…`, `ROCE_CC_…`), PCIe (`PCI_WR_ORDERING`,
`ADVANCED_PCI_SETTINGS`, `MAX_ACC_OUT_READ`, `ATS_ENABLED`) and SR-IOV, as `mlxconfig` shows them.

Why
---
A card that slows down earlier than its peers gets less than its share whenever links are full, and all ranks wait for
it. A card whose PCIe settings differ is slower on its own. Neither shows in any counter.

Fix
---
Compare the output of `mlxconfig -e query` on both nodes, decide which is right, set it with `mlxconfig set`, and
reboot.

Source
------
NVIDIA MFT documentation, mlxconfig (configuration parameters); NVIDIA DOCA documentation, DCQCN parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from railbed.check.shared.hardware.firmware import FIRMWARE_PROBES, firmware_of
from railbed.check.shared.port import by_value, rdma_ports, read_ports, report_unread
from railbed.model.text import plural
from railbed.probes import mlxconfig
from railbed.probes.mlxconfig import CardFirmware
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import RailView

EXPECTED = "the same firmware settings on the rail"
NAMES = re.compile(
    r"(RPG_|CNP_|ROCE_CC_|DCE_TCP_|RATE_REDUCE_|INITIAL_ALPHA_|MIN_TIME_BETWEEN_|CLAMP_TGT_).*_P\d"
    r"|PCI_WR_ORDERING|ADVANCED_PCI_SETTINGS|MAX_ACC_OUT_READ|ATS_ENABLED|SRIOV_EN|NUM_OF_VFS|CQE_COMPRESSION",
    re.ASCII,
)
TOO_FEW = "fewer than two cards to compare"


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare the cards of each type."""
    read, unread = read_ports(rdma_ports(rail), mlxconfig.PROBE)
    yield from report_unread(unread, EXPECTED)
    cards = {port.subject: card for port, _ in read if isinstance(card := firmware_of(port, EXPECTED), CardFirmware)}
    kinds: dict[str | None, dict[str, CardFirmware]] = {}
    for subject, card in cards.items():
        kinds.setdefault(card.type, {})[subject] = card
    comparable = [group for group in kinds.values() if len(group) > 1]
    if not comparable:
        if not unread:
            yield skip(TOO_FEW, expected=EXPECTED)
        return
    differences = [text for group in comparable for text in _differences(group)]
    if differences:
        yield warn(differences[0], expected=EXPECTED, evidence="\n".join(differences))
    else:
        yield ok(expected=EXPECTED, observed=plural(sum(map(len, comparable)), "card"))


def _differences(cards: Mapping[str, CardFirmware]) -> Iterator[str]:
    """Yield each setting of which cards have different values; a card that lacks it does not count."""
    names = dict.fromkeys(name for card in cards.values() for name in card.settings if NAMES.fullmatch(name))
    for name in names:
        values = {
            subject: setting.current or setting.next
            for subject, card in cards.items()
            if (setting := card.settings.get(name)) is not None
        }
        if len(set(values.values())) > 1:
            yield f"{name} {by_value(values)}"


def _unless(rail: RailView) -> str:
    return "" if len(rdma_ports(rail)) > 1 else TOO_FEW


RULE = Rule(
    name="firmware_settings_equal",
    title="the same firmware settings on the rail",
    scope="rail",
    stage="card",
    needs=FIRMWARE_PROBES,
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
