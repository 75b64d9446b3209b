"""The checksums (ICRC) of packets: which are wrong, and where packets were recorded before theirs was computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from railbed.capture.analysis.views import FlowKey, Rows, View
from railbed.capture.packets import Icrc

MOST_SHARE = 0.5
"""If more are wrong, the recorder sits before the place where the ICRC is computed, or something rewrites addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksums:
    """What one recording shows of the checksums of a flow."""

    known: int
    """Packets that were recorded completely."""
    mismatched: Rows
    """Packets whose checksum does not fit their content."""
    is_computed: bool
    """Whether packets on this path were recorded with their checksum: if not, it proves nothing."""

    @property
    def wrong(self) -> Rows:
        """Packets that were damaged."""
        return self.mismatched if self.is_computed else self.mismatched[:0]


def checksums_of(views: Iterable[View]) -> Mapping[FlowKey, Checksums]:
    """Return the checksums of each flow of a recording; flows from one address to another are judged together."""
    counted: dict[FlowKey, tuple[int, Rows]] = {}
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for view in views:
        icrc = view.column("icrc")
        known, mismatched = int((icrc != Icrc.NOT_CAPTURED).sum()), view.rows[icrc == Icrc.WRONG]
        counted[view.key] = known, mismatched
        path = view.key.source, view.key.destination
        path_known, path_mismatched = totals.get(path, (0, 0))
        totals[path] = path_known + known, path_mismatched + len(mismatched)
    is_computed = {path: mismatched <= MOST_SHARE * known for path, (known, mismatched) in totals.items()}
    return {
        key: Checksums(known=known, mismatched=mismatched, is_computed=is_computed[key.source, key.destination])
        for key, (known, mismatched) in counted.items()
    }
