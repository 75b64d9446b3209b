"""Which probes some rules read on a cluster: those of rules that the file alone decides are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from railbed.check.book import CHECK_BOOK
from railbed.check.site import Site
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.rules.rule import Rule

F = TypeVar("F")


class _WouldRead(Exception):
    """Raised when a rule reads facts before there are any."""


class _NotReadYet(DeviceFacts):
    """A device before anything was read from it."""

    def _reading(self, probe: Probe[F], index: int) -> Known[F] | Unknown:
        raise _WouldRead(f"reading {index} of {probe.name}")


def probes_needed(checks: Iterable[Rule[Any]], cluster: Cluster) -> Iterator[Probe[Any]]:
    """Yield the probes that the rules read on this cluster; none for a rule that the file alone decides (no RDMA)."""
    before = Site(cluster, {name: _NotReadYet(device=name) for name in (*cluster.nodes, *cluster.switches)})
    for check in checks:
        try:
            for subject in CHECK_BOOK.subjects(check.scope, before):
                list(check.judge(subject))
        except _WouldRead:
            yield from check.probes
