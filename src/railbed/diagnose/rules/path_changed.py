"""The network of a node was changed while training ran, and training had to start again.

What
----
When ranks restart, railbed checks the nodes at once. A rule about the network failed then that had not failed before
the launch: somebody changed an MTU, an address, a route, a firewall or a link meanwhile. A change of a node that the
ranks do not blame for the restart is not reported here, but with the restart (`training_restart`).

Why
---
The ranks only see that nothing arrives any more. They start again from the last checkpoint, and may fail again in the
same way, or go on more slowly.

Fix
---
Undo the change, or make it on all nodes and in the cluster file: `railbed check` shows both, and `railbed configure`
applies what the cluster file says.

Source
------
railbed's own checks at the moment of a restart (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import causes_of, changes_at, failures, remedies
from railbed.model.record import Finding, Verdict
from railbed.present.changed import NO_LINK, before_the_launch
from railbed.present.groups import group_by
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from railbed.store.timeline import Mark

OF_THE_HOST = ("disk_space", "memory_available")
"""Rules that are judged at a restart and are not about the network."""


def judge(site: Site) -> Iterator[Judgement]:
    """Gather what failed at restarts, by the place of the change: restarts in a row are one verdict."""
    current: dict[str, list[tuple[Mark, Finding]]] = {}
    for restart in failures(site):
        changes = group_by(_of_network(site, restart), key=lambda finding: finding.subject)
        here = {findings[0].subject: [(restart, finding) for finding in findings] for findings in changes}
        for place in sorted(current.keys() - here.keys()):
            yield _judgement(site, place, current.pop(place))
        for place, pairs in here.items():
            current.setdefault(place, []).extend(pairs)
    for place, pairs in current.items():
        yield _judgement(site, place, pairs)


def _of_network(site: Site, restart: Mark) -> list[Finding]:
    return [
        finding
        for finding in causes_of(restart, changes_at(site, restart))
        if finding.verdict is Verdict.FAIL and finding.check not in OF_THE_HOST and not _is_lost_link(finding)
    ]


def _is_lost_link(finding: Finding) -> bool:
    """Whether a link lost its carrier: that is no change of settings, and sampled (`node_cut`, `link_flap`)."""
    return finding.check == "link_up" and finding.observed.startswith(NO_LINK)


def _judgement(site: Site, place: str, changes: list[tuple[Mark, Finding]]) -> Judgement:
    restarts = list(dict.fromkeys(restart for restart, _ in changes))
    findings = list({finding.check: finding for _, finding in changes}.values())
    again = f", and {len(restarts) - 1} more after it" if len(restarts) > 1 else ""
    return fail(
        f"{'; '.join(map(before_the_launch, findings))}; found at a restart{again}: {restarts[0].text}",
        span=Span(restarts[0].time, _next_step(site, restarts[-1].time)),
        certainty="likely" if all(finding.before for finding in findings) else "possible",
        subject=place,
        expected=", ".join(dict.fromkeys(finding.expected for finding in findings)),
        remedy=remedies(findings),
        evidence="\n".join(finding.evidence for finding in findings if finding.evidence),
    )


def _next_step(site: Site, restart: float) -> float:
    """Return when training took steps again: connections of the new ranks adapt to the change, or avoid the node."""
    starts = [mark.time for mark in site.run.marks("notice") if mark.generation is not None and mark.time > restart]
    start = min(starts, default=restart)  # later than the last messages of the ranks before
    later = [signal.times[signal.times > start] for signal in site.run.signals_of("step_seconds")]
    return min((float(times[0]) for times in later if len(times)), default=site.run.span.end)


RULE = Rule(
    name="path_changed",
    title="the network of a node was changed during training",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
)
