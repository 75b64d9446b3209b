"""No firmware setting of a card waits for the next boot.

What
----
`mlxconfig -e query` shows the same value in the columns `Current` and `Next Boot` for every setting. Skipped without
the tool, in virtual machines and on virtual functions.

Why
---
A setting that somebody wrote takes effect when the machine boots or the card is reset: months later, after a power
cut, one node then behaves differently from all others, and nobody remembers why.

Fix
---
If the new value is wanted, reboot the node, or reset the card while no training runs (`mlxfwreset -d DEVICE reset`).
If not, write the current one again: `mlxconfig -d DEVICE set NAME=VALUE`.

Source
------
NVIDIA MFT documentation, mlxconfig utility (query with `-e`, next boot configurations).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.hardware.firmware import FIRMWARE_PROBES, firmware_of
from railbed.check.shared.port import no_rdma, rdma_device, some
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "no firmware setting waits for a boot"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare what is in force with what the next boot brings."""
    card = firmware_of(port, EXPECTED)
    if isinstance(card, Judgement):
        yield card
        return
    pending = [
        f"{name} {setting.current}, then {setting.next}"
        for name, setting in card.settings.items()
        if setting.is_pending
    ]
    device = rdma_device(port)
    address = device.pci if device else port.port.rdma
    if pending:
        remedy = f"reboot the node, or `mlxfwreset -d {address} reset` while no training runs; or write the old values"
        yield warn(some(pending), expected=EXPECTED, remedy=remedy, evidence="\n".join(pending))
    elif all(setting.current is None for setting in card.settings.values()):
        yield unknown(expected=EXPECTED, observed="mlxconfig shows only what the next boot brings")
    else:
        yield ok(expected=EXPECTED, observed=f"{len(card.settings)} settings in force")


RULE = Rule(
    name="firmware_pending",
    title="firmware settings are in force",
    scope="RDMA port",
    stage="card",
    needs=FIRMWARE_PROBES,
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
