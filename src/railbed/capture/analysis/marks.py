"""DSCP, ECN and priority of a flow's packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.views import Rows, View
from railbed.capture.packets import NO_VLAN, Kind

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3
ECN_NAMES = {NOT_ECT: "not-ect", ECT1: "ect1", ECT0: "ect0", CE: "ce"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How many packets have which mark."""

    dscp: Mapping[int, int]
    ecn: Mapping[str, int]
    priority: Mapping[int, int]
    """Of the VLAN tag."""
    untagged: int
    packets: int
    """With an IP header: RoCEv1 has neither DSCP nor ECN."""

    @property
    def ce(self) -> int:
        """Packets that a switch marked as congested."""
        return self.ecn.get("ce", 0)

    @property
    def ce_share(self) -> float:
        """Share of packets that a switch marked."""
        return self.ce / self.packets if self.packets else 0.0


def marks_of(view: View, rows: Rows) -> Marks:
    """Return the marks of some packets of a flow."""
    with_ip = view.column("kind", rows) != Kind.ROCE1
    tos = np.bincount(view.column("tos", rows)[with_ip], minlength=256)
    tags = view.column("vlan", rows)
    tagged = tags != NO_VLAN
    return Marks(
        dscp=_counts(tos.reshape(64, 4).sum(axis=1)),
        ecn={ECN_NAMES[code]: count for code, count in _counts(tos.reshape(64, 4).sum(axis=0)).items()},
        priority=_counts(np.bincount(tags[tagged] >> 13, minlength=8)),
        untagged=int((~tagged).sum()),
        packets=int(with_ip.sum()),
    )


def _counts(numbers: NDArray[Any]) -> dict[int, int]:
    return {int(value): int(numbers[value]) for value in np.flatnonzero(numbers)}


def congested(view: View, rows: Rows) -> Rows:
    """Return the packets that a switch marked as congested."""
    marked: Rows = rows[(view.column("tos", rows) & 3 == CE) & (view.column("kind", rows) != Kind.ROCE1)]
    return marked
