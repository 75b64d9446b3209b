"""Training had to start again.

What
----
The ranks were started again, and no other verdict explains why. railbed checks the nodes at every restart: what failed
then and had not failed before the launch is named as the probable cause; if the ranks blame another node, only as
what had changed.

Why
---
Every restart repeats the steps since the last checkpoint and costs the time of a start.

Fix
---
The run's events have the reason and the cost: `railbed report RUN`. The log of the node named here may have more:
`railbed runs` shows where it is.

Source
------
railbed's own records of restarts (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.diagnose.shared.compare import bmc_report_around, causes_of, changes_at, failures, remedies
from railbed.model.record import Certainty, Finding, Verdict
from railbed.present.changed import explain_restart
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule
from railbed.rules.site import Site


def judge(site: Site) -> Iterator[Judgement]:
    """Report each restart, with what had changed on the nodes by then."""
    for restart in failures(site):
        subject = restart.subject if restart.subject.partition("/")[0] in site.cluster.nodes else "cluster"
        changes = changes_at(site, restart)
        causes = causes_of(restart, changes)
        explanation = explain_restart(changes, restart.subject, restart.text)
        yield fail(
            "; ".join(
                filter(
                    None,
                    [
                        restart.text,
                        explanation,
                        bmc_report_around(site, restart.subject.partition("/")[0], restart.time),
                    ],
                )
            ),
            span=Span(restart.time, restart.time),
            certainty=_certainty(causes),
            subject=subject,
            expected="one start",
            remedy=remedies(causes),
            evidence="\n".join(finding.evidence for finding in causes if finding.evidence),
        )


def _certainty(causes: Sequence[Finding]) -> Certainty:
    """The restart is certain, its cause is not."""
    if not causes:
        return "certain"
    return "likely" if any(finding.verdict is Verdict.FAIL and finding.before for finding in causes) else "possible"


RULE = Rule(
    name="training_restart",
    title="training had to start again",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
    yields_anywhere=(
        "node_frozen",
        "node_cut",
        "link_flap",
        "path_changed",
        "path_gid",
        "path_mtu",
        "path_peer_dead",
    ),
)
