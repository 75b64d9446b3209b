"""What has become worse on the nodes since the check before a launch: looked for when the ranks of a training restart.

Somebody may have set an MTU, added an address or filled a disk meanwhile, and the ranks only see that nothing arrives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace

from railbed.check.book import CHECK_BOOK, probes_needed, restart_checks
from railbed.check.shared.boot import BOOT_PROBES
from railbed.fleet import Fleet, survey
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import CHECK_SECONDS, WRONG, Finding, Verdict
from railbed.rules.engine import judge
from railbed.rules.site import Site

NODE_SECONDS = 8.0
"""How long a node may take: a frozen one takes all of it, and the others restart meanwhile."""
ALL_SECONDS = CHECK_SECONDS / 3
NO_ANSWER = f"no answer within {ALL_SECONDS:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a check at the moment of a restart found."""

    findings: tuple[Finding, ...] = ()
    """Those that are worse than before the launch."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Nodes that did not answer, and why."""
    seconds: float = 0.0


class LaunchState:
    """What the rules that are judged again at a restart concluded before the launch."""

    def __init__(self, cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> None:
        self._cluster = cluster
        judged = judge(CHECK_BOOK, Site(cluster, facts), restart_checks()) if facts else ()
        self._findings = {(finding.check, finding.subject): finding for finding in judged}

    @property
    def is_known(self) -> bool:
        """Whether there was a check before the launch."""
        return bool(self._findings)

    def worse(self, findings: Iterator[Finding], generation: int) -> Iterator[Finding]:
        """Yield the findings that are wrong and were not as bad before the launch, with what was observed then."""
        for finding in findings:
            before = self._of(finding)
            if finding.verdict in WRONG and (before is None or finding.verdict.rank < before.verdict.rank):
                is_observed = before is not None and before.verdict is not Verdict.UNKNOWN
                observed = before.observed if before is not None and is_observed else None
                yield replace(finding, generation=generation, before=observed)

    def _of(self, finding: Finding) -> Finding | None:
        """Return the finding of before; a rule over a rail or the cluster names a node only if something is wrong."""
        exact = self._findings.get((finding.check, finding.subject))
        if exact is not None:
            return exact
        places = ("cluster", *self._cluster.rails)
        return next(filter(None, (self._findings.get((finding.check, place)) for place in places)), None)


async def changes_since(before: LaunchState, cluster: Cluster, fleet: Fleet, generation: int) -> Changes:
    """Check all nodes in one round; a node that does not answer in time is part of the result.

    The connections are those of the training, and stay open whatever happens here.
    """
    checks = restart_checks()
    # What the next boot restores is no reason for ranks to end.
    needed = (probe for probe in probes_needed(checks, cluster) if probe not in BOOT_PROBES)
    probes = list({probe.name: probe for probe in needed}.values())
    began = time.monotonic()
    facts: dict[str, DeviceFacts] = {}
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(ALL_SECONDS),
            aclosing(survey(fleet.guest(cluster.nodes, timeout=NODE_SECONDS), cluster, probes)) as answers,
        ):
            async for answer in answers:
                facts[answer.device] = answer
    site = Site(cluster, facts)
    return Changes(
        findings=tuple(before.worse(judge(CHECK_BOOK, site, checks), generation)),
        unread={node: why for node in cluster.nodes if (why := _unread(facts.get(node)))},
        seconds=time.monotonic() - began,
    )


def _unread(facts: DeviceFacts | None) -> str:
    if facts is None:
        return NO_ANSWER
    return facts.failure.reason if facts.failure else ""
