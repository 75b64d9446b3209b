"""The rules of `diagnose`: each finds what went wrong in the time series of a run; a cause explains its effects."""

from __future__ import annotations

from dataclasses import replace

from railbed.diagnose import rules
from railbed.model.cluster import Cluster
from railbed.model.record import Finding
from railbed.rules.book import RuleBook, parts_of_cluster
from railbed.rules.site import Site

SLACK_SECONDS = 6.0
"""How long the effects of a fault may precede or outlast what is known of the fault itself."""
END_SECONDS = 2.0
"""What is still wrong so shortly before the end of the run lasts."""


def _complete(site: Site, finding: Finding) -> Finding:
    """Return a finding without an end if it lasts, and with the interface in the commands of its remedy."""
    lasts = finding.until is not None and finding.until >= site.run.span.end - END_SECONDS
    remedy = _remedy(finding.remedy, finding.subject)
    return replace(finding, until=None if lasts else finding.until, remedy=remedy)


def _remedy(text: str, subject: str) -> str:
    """Return a remedy with the interface in its commands; IF stands for it if the subject is not a port."""
    interface = subject.partition("/")[2]
    return text.replace(" IF`", f" {interface}`") if interface else text


def _same_place(site: Site, first: str, second: str) -> bool:
    """Whether two subjects are the same device, or a rail and a port on it."""
    if "cluster" in (first, second) or first.partition("/")[0] == second.partition("/")[0]:
        return True
    return first in _rails_of(site.cluster, second) or second in _rails_of(site.cluster, first)


def _rails_of(cluster: Cluster, subject: str) -> set[str]:
    """Return the rail of a port of a node; none for other subjects."""
    name, _, netdev = subject.partition("/")
    node = cluster.nodes.get(name)
    return {port.rail for port in node.ports if port.netdev == netdev} if node else set()


DIAGNOSE_BOOK: RuleBook[Site] = RuleBook(
    package=rules,
    subjects=parts_of_cluster,
    sums_up=True,
    complete=_complete,
    certainty="likely",
    same_place=_same_place,
    slack=SLACK_SECONDS,
    most=3,
)
